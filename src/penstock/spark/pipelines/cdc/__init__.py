"""Every change of a table of PostgreSQL, on its way to a search index, a cache, a warehouse and
features for machine learning.

    source.py              what is captured, and the names that follow from it; pure
    source_topics.py       its topics; pure
    database.py            what the database's catalogue says of the tables
    snapshot.py            the rows that are there when a capture begins
    replication_stream.py  the messages of a slot, as the server sends them
    pgoutput.py            what they say, as values; pure
    record.py              a change as a record; pure
    change_writer.py       changes into topics, by transactions of the cluster
    capture.py             all of it together: each change once
    follower.py            a topic into a store of the latest rows
    latest_rows.py         which rows such a store takes; pure
    store_progress.py      how far such a store has read, and what it may forget; pure
    search_index.py        a store: SQLite's FTS5
    redis_cache.py         a store: a cache server
    steps.py               changes to documents, entries, rows and features
    feature_table.py       features as they were at an offset
    job.py                 the queries
"""
