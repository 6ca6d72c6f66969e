"""The record kernel in plain Python, with the same answers: for where no compiler was."""
