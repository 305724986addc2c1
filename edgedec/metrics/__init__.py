"""Figures of replies and of the bytes that they read."""
