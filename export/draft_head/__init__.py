"""Turns the trained weights of a drafting head into the bundle that drafts for its target."""
