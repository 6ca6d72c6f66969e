"""Classic groups: one member assigns for all, and all members join again for each generation."""
