"""The parts of the chat screen, one widget a file."""
