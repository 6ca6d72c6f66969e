"""The controller, and how a broker reaches it."""
