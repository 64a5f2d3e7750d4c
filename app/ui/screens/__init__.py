"""Whole screens of the app, a file or a folder each."""
