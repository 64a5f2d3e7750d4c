"""The chat screen: `view` lays it out, and each other module adds what a person can do with one kind of thing."""
