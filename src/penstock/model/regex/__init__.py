"""Regular expressions over topic names and ids, with the syntax and the linear time of RE2."""
