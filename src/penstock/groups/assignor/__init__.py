"""How the partitions of topics are shared among members: pure functions, one file each."""
