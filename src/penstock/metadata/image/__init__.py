"""The cluster as the metadata log describes it: immutable values, replaced as a whole."""
