"""Whole clusters in a simulated world: real nodes, clients of ours, faults, and the verdict."""
