"""Exit statuses of commands, besides 0, 1 and click's 2 for a wrong command line."""

INTERRUPTED = 130  # Ctrl-C, as shells count it
BROKEN_PIPE = 141
