"""Committed offsets: kept by group, topic and partition."""
