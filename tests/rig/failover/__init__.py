"""Clusters with replicated partitions whose nodes are killed, paused and cut off, and the proof."""
