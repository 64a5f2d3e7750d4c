"""The line interface: the same chats as the app, for dumb terminals, ssh and screen readers. Textual is not used."""
