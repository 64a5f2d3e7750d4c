"""The model picker: `screen` has its keys, `view` shows it, and each other module one kind of thing that it shows."""
