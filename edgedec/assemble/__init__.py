"""Models, drafters, budget and engine, put together from a ``RunConfig``."""
