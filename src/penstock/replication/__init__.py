"""The rules of one replicated partition."""
