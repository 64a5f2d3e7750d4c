"""qchat: the terminal chat application for local models."""

__version__ = "0.1.0"
