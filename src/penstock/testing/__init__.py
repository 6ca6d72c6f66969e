"""A broker as a pytest fixture."""
