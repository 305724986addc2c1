"""Drafters by kind: found, checked, planned for and built."""
