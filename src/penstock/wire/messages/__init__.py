"""The declared messages, one file per API."""
