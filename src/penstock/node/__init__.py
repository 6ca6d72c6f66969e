"""Composition: a World and a configuration become a running node."""
