"""One file for each promise: it looks at what clients were told and at what can be read."""
