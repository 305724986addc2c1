"""What ``build.py`` is made of."""
