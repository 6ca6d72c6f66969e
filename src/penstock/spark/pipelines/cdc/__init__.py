"""Every change of a table of PostgreSQL, on its way to a search index, a cache, a warehouse and
features for machine learning.

    pgoutput.py   what PostgreSQL's log says, as values; pure
    record.py     a change as a record
    snapshot.py   the rows that are there when a capture begins
    capture.py    the log into topics, each change once
    steps.py      changes to documents, entries, rows and features
    job.py        the queries
"""
