"""Calls of tools in replies: one file for each form that models write them in."""
