"""Decoding: the loop over passes, and one round's draft."""
