"""What the handler of an API is given, and what several handlers use."""
