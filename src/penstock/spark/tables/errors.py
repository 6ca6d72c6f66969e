"""What keeps a batch out of a table: one clear line each, and nothing of the batch is written."""

from penstock.model.error import PenstockError


class TableTrouble(PenstockError):
    """The root of what writing into tables raises."""


class OlderBatch(TableTrouble):
    """A batch that came before the last one in the table: a driver that was left behind, or a
    checkpoint that is older than the table.
    """


class Superseded(TableTrouble):
    """Another query has gone on writing under this name, and this one is not to disturb it."""


class WrongColumns(TableTrouble):
    """The batch does not fit the table: columns it lacks, or of another type."""


class WrongKeys(TableTrouble):
    """Rows can't be told apart by their keys: a key is missing, or stands twice in one batch."""


class OtherApp(TableTrouble):
    """The table belongs to another application."""


class UnknownTable(TableTrouble):
    """There is no such table, and it is not made here."""


class DatabaseUnreachable(TableTrouble):
    """No PostgreSQL answered at the address given."""


class Contended(TableTrouble):
    """Others wrote to the table again and again, each time before this batch could be."""


class NoPackagedServer(TableTrouble):
    """The packaged PostgreSQL is not installed, or does not start."""
