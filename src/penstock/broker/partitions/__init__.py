"""The partitions of this broker and their upkeep: directories, syncs, retention, cleaning."""
