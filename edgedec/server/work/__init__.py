"""Requests to installed models: queue, slots, reuse of the KV cache, models on demand. No HTTP."""
