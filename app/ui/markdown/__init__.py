"""Markdown of a message, drawn by one widget. Parsing, layout and painting are apart, so each is tested alone."""
