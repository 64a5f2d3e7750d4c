"""Guessing the next tokens from what was said before, so that one step can check several; no answer ever changes."""
