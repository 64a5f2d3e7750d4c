"""Where answers come from: one protocol, and a backend for each kind of engine or server behind it."""
