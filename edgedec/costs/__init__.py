"""The costs of passes on this machine: measured, kept in files, predicted."""
