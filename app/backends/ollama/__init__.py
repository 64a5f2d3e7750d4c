"""Ollama over its own protocol, which tells and takes more than the OpenAI one that it speaks, too.

Source of the format: docs/api.md of github.com/ollama/ollama. What differs in use: thinking has a switch, an answer's
times are measured by the server, and two fields that the description leaves out (`truncate` and `shift` of
api/types.go) keep the server from dropping the beginning of a conversation without a word.
"""
