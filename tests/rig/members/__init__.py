"""Consumers of a group, each a process of its own, so that it can be killed, stalled and restarted.

`member.py` is the test's end. The other end is one program a client library: it joins the group,
reads, commits what it has read, and tells by lines of JSON what it owns and what it read.
"""
