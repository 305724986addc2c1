"""OpenAI's forms, and those of others: JSON to requests, events to JSON, errors. No HTTP."""
