"""How each client library gets in at a secured listener, and what it says when it may not."""
