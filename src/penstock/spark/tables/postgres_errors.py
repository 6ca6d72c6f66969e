"""What is said of a database and of its errors: one line each, and nothing secret."""

import psycopg
from psycopg.conninfo import conninfo_to_dict


def address(dsn: str) -> str:
    """Where a DSN leads to, without what is secret in it."""
    try:
        parts = conninfo_to_dict(dsn)
    except psycopg.ProgrammingError:
        return "the DSN of PostgreSQL"
    place = f"{parts.get('host', 'localhost')}:{parts.get('port', 5432)}"
    return f"PostgreSQL at {place}, database {parts.get('dbname', '?')}"


def one_line(error: psycopg.Error) -> str:
    """What went wrong and where in the data, without the statement."""
    said = error.diag.message_primary or str(error).strip().replace("\n", " ")
    context = (error.diag.context or "").partition("\n")[0]
    return f"{said} ({context})" if context else said
