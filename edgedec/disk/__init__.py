"""Files and folders: where they lie, locks, and writes that are whole or not at all."""
