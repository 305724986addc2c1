"""OpenAI's forms: JSON to requests, events to JSON, errors. No HTTP."""
