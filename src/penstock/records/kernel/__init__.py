"""The record kernel: what looks at single records, compiled. `twin` is the same in Python."""
