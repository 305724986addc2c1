"""Text in and out of tokens: tokenizer, chat template, stop strings."""
