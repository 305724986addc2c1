"""Record the terminals of the documentation: ``python -m docs.record``."""
