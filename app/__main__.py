"""`python -m app` is `qchat`."""

from app.cli import main

main()
