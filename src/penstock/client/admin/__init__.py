"""Administration: topics, settings, groups, offsets, transactions."""
