"""A plugin whose module ends the program when it is imported."""

import sys

sys.exit(3)
