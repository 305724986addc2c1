"""The window of a chat: replies as they stream, on a terminal or in a pipe."""
