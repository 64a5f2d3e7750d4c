"""What the backends for servers share: what a person says about one, and HTTP to it with errors for that person."""
