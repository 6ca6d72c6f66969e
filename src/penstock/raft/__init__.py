"""The quorum of the metadata log: Raft in KRaft's pull form, pure. Start with `replica`."""
