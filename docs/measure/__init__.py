"""Measure the tables of docs/measured.md again: ``python -m docs.measure``."""
