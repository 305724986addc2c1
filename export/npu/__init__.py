"""Export for NPUs: graphs of fixed length in standard ops, quantised, over one file of weights."""
