"""A shop's product table and what its staff does to it: new products, sales, prices, ends.

Other generators make events for topics. Here the events are what PostgreSQL tells of its table, so
this one changes a real table: `transactions(seed)` are the statements, the same for the same seed,
and `feed` carries them out.
"""

import random
import time
from collections.abc import Iterator
from itertools import islice
from typing import LiteralString, NamedTuple

import psycopg

MAKE_TABLE = """
    CREATE TABLE IF NOT EXISTS products (
        id bigint PRIMARY KEY,
        name text NOT NULL,
        description text NOT NULL,
        category text NOT NULL,
        price_cents bigint NOT NULL,
        stock int NOT NULL
    )
"""
# Descriptions may be long; an update that leaves one alone tells it all the same.
TELL_WHOLE_ROWS = "ALTER TABLE products REPLICA IDENTITY FULL"
PRODUCTS_MAX = 2_000
CATEGORIES = ("tools", "garden", "kitchen", "lights", "toys")
KINDS = ("lamp", "saw", "kettle", "spade", "robot", "shelf", "clock", "kite")
WORDS = ("sturdy", "light", "quiet", "bright", "round", "small", "folding", "oak", "steel", "blue")

INSERT: LiteralString = "INSERT INTO products VALUES (%s, %s, %s, %s, %s, %s)"
SELL: LiteralString = "UPDATE products SET stock = greatest(stock - %s, 0) WHERE id = %s"
RESTOCK: LiteralString = "UPDATE products SET stock = stock + %s WHERE id = %s"
REPRICE: LiteralString = "UPDATE products SET price_cents = %s WHERE id = %s"
DESCRIBE: LiteralString = "UPDATE products SET description = %s WHERE id = %s"
RENUMBER: LiteralString = "UPDATE products SET id = %s WHERE id = %s"
DELETE: LiteralString = "DELETE FROM products WHERE id = %s"


class Statement(NamedTuple):
    text: LiteralString
    values: tuple[object, ...]


def feed(
    dsn: str, seed: int, *, transactions_max: int | None = None, pause_seconds: float = 0.0
) -> None:
    """Changes the table, which is made when it is missing; without a bound it never ends."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(MAKE_TABLE)
        connection.execute(TELL_WHOLE_ROWS)
        found = connection.execute("SELECT coalesce(max(id), 0) FROM products").fetchone()
        assert found is not None
        for statements in islice(transactions(seed, first_id=found[0] + 1), transactions_max):
            with connection.transaction():
                for statement in statements:
                    connection.execute(statement.text, statement.values)
            time.sleep(pause_seconds)


def transactions(seed: int, *, first_id: int = 1) -> Iterator[list[Statement]]:
    """Endless. Some are of one statement, some of several; ids begin at `first_id`."""
    chance = random.Random(seed)
    living: list[int] = []
    next_id = first_id
    while True:
        statements = []
        for _ in range(chance.choice((1, 1, 1, 2, 5))):
            kind = chance.random()
            if len(living) < 5 or (kind < 0.15 and len(living) < PRODUCTS_MAX):
                statements.append(Statement(INSERT, _product(chance, next_id)))
                living.append(next_id)
                next_id += 1
                continue
            place = chance.randrange(len(living))
            if kind > 0.97:
                statements.append(Statement(RENUMBER, (next_id, living[place])))
                living[place] = next_id
                next_id += 1
            elif kind > 0.92:
                statements.append(Statement(DELETE, (living.pop(place),)))
            else:
                statements.append(_change(chance, living[place]))
        yield statements


def _product(chance: random.Random, number: int) -> tuple[object, ...]:
    words = chance.sample(WORDS, 2)
    name = f"{words[0]} {chance.choice(KINDS)}"
    return (
        number,
        name,
        _description(chance),
        chance.choice(CATEGORIES),
        chance.randrange(199, 19_999),
        chance.randrange(0, 40),
    )


def _change(chance: random.Random, number: int) -> Statement:
    kind = chance.random()
    if kind < 0.6:
        return Statement(SELL, (chance.randrange(1, 8), number))
    if kind < 0.75:
        return Statement(RESTOCK, (chance.randrange(10, 60), number))
    if kind < 0.95:
        return Statement(REPRICE, (chance.randrange(199, 19_999), number))
    return Statement(DESCRIBE, (_description(chance), number))


def _description(chance: random.Random) -> str:
    return " ".join(chance.choices(WORDS, k=chance.choice((3, 8, 1_000))))
