"""Lossy policies for a full KV cache: which tokens leave it."""
