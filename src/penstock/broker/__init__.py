"""The client-facing shell: connections, dispatch, and one file per API."""
