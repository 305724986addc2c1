"""Tests of tool servers."""
