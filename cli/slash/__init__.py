"""Commands inside a chat: lines that begin with a slash."""
