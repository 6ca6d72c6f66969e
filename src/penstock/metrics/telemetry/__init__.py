"""The metrics that clients push (KIP-714): who may push what and when, and what is kept of it."""
