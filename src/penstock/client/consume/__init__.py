"""Consuming records, alone and as a member of a group."""
