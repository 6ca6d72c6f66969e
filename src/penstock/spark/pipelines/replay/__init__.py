"""A new view of an event store: built from offset 0, then live, and only then shown to readers.

The events are what happened to accounts (`replay.ledger`, kept for ever); a view is what follows
from them, such as balances. A view that shall show more has a new version, and is built beside the
old one, which readers go on reading meanwhile.

    build    the query of the new version reads from the first event to the end of that moment
    live     the same query goes on from the same checkpoint, and so from exactly there
    switch   `replay.views` says which version readers read: one record, one transaction

There is no seam between replay and live at which an event could be lost or counted twice, for there
are no two of them: one query, one checkpoint, one state, one sink. Killed anywhere, it goes on when
started again. Start with `job.py`.
"""
