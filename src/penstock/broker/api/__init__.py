"""One file per API: its versions, its handler, its refusal."""
