"""A server of models for programs that speak OpenAI's forms, and a page to chat on."""
