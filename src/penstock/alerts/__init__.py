"""Alerts as rules and a state machine: figures go in, what begins and ends to fire comes out."""
