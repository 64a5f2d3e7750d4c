"""Chat templates: from a conversation to prompt text, and from a reply's text back to its parts."""
