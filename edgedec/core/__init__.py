"""Plain data and errors shared by every layer; imports only NumPy and the standard library."""
