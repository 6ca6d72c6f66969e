"""The cluster as the metadata log tells it: immutable values, replaced whole."""
