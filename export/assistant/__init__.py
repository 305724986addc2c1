"""Assistants of Gemma 4: small drafters that read the target's cache and have none of their own."""
