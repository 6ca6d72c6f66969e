"""Coordinators: the shards of groups that this broker leads, run on their partitions."""
