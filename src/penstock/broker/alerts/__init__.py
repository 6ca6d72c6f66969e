"""Alerts of a node: their figures, gathered at an interval, and where they are told."""
