"""What keeps a batch out of a table: one clear line each, and nothing of the batch is written."""

from penstock.model.error import PenstockError


class TableError(PenstockError):
    """The root of what writing into tables raises."""


class OlderBatch(TableError):
    """A batch that came before the last one in the table: a driver that was left behind, or a
    checkpoint that is older than the table.
    """


class Superseded(TableError):
    """Another query has gone on writing under this name, and this one is not to disturb it."""


class NoQuery(TableError):
    """A batch is written where Spark does not tell which query has made it."""


class WrongColumns(TableError):
    """The batch does not fit the table: columns it lacks, or of another type."""


class WrongKeys(TableError):
    """Rows can't be told apart by their keys: a key is missing, or stands twice in one batch."""


class OtherApp(TableError):
    """The table belongs to another application."""


class UnknownTable(TableError):
    """There is no such table, and it is not made here."""


class DatabaseUnreachable(TableError):
    """No PostgreSQL answered at the address given."""


class StoreError(TableError):
    """What holds a table, an object store or a file system, fails or refuses; or the options that
    tell how it is reached can't be obeyed.
    """


class Contended(TableError):
    """Others wrote to the table again and again, each time before this batch could be."""


class NoPackagedServer(TableError):
    """The packaged PostgreSQL is not installed, or does not start."""
