"""Regular expressions over topic names with the syntax and the linear time of RE2."""
