"""Bundles of models and drafters as their files describe them: manifests, facts, presets, verified hashes."""
