"""Raft on value messages, without a loop: very many seeds of crashes and bad networks."""
