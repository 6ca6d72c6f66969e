"""Replicas of one partition on messages that are values: many seeds, without asyncio."""
