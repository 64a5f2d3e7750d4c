"""Conversations: one question to one finished reply, the same for the app, the REPL and `ask`."""
