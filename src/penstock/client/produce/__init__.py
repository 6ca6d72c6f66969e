"""Producing records, plainly and in transactions."""
