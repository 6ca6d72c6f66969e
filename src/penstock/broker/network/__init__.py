"""Listeners, connections and dispatch: from bytes of requests to bytes of replies."""
