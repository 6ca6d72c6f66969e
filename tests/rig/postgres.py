"""A real PostgreSQL for tests: one server a test session, a database for whoever asks."""

import itertools

from penstock.spark.tables.packaged_postgres import PackagedPostgres

NUMBERS = itertools.count(1)


class Databases:
    """Starts the server when the first database is asked for."""

    def __init__(self) -> None:
        self._server: PackagedPostgres | None = None

    def fresh(self) -> str:
        """The DSN of an empty database."""
        if self._server is None:
            self._server = PackagedPostgres()
            self._server.start()
        return self._server.new_database(f"fresh_{next(NUMBERS)}")

    def close(self) -> None:
        if self._server is not None:
            self._server.stop()
