"""Lines of text to running counts of their words."""
