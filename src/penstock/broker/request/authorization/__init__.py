"""What each API needs: start at `table`."""
