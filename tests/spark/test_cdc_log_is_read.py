"""What PostgreSQL 18 wrote, byte for byte, as transactions."""

import pytest

from penstock.spark.pipelines.cdc.pgoutput import (
    BadLog,
    Change,
    Kind,
    Transaction,
    lsn_number,
    lsn_text,
    transactions,
    typed,
)

KEYS = {"public.t": ("id",)}
# CREATE TABLE t (id int PRIMARY KEY, v text)
RELATION = (
    b"R\x00\x00@\x01public\x00t\x00d\x00\x02\x01id\x00\x00\x00\x00\x17\xff\xff\xff\xff"
    b"\x00v\x00\x00\x00\x00\x19\xff\xff\xff\xff"
)
# INSERT INTO t VALUES (1, 'a'), (2, NULL)
INSERTED = [
    b"B\x00\x00\x00\x00\x01\xb1\xad\xe0\x00\x03\x03O\xaf4\x9c\xca\x00\x00\x02\xf3",
    RELATION,
    b"I\x00\x00@\x01N\x00\x02t\x00\x00\x00\x011t\x00\x00\x00\x01a",
    b"I\x00\x00@\x01N\x00\x02t\x00\x00\x00\x012n",
    b"C\x00\x00\x00\x00\x00\x01\xb1\xad\xe0\x00\x00\x00\x00\x01\xb1\xae\x10\x00\x03\x03O\xaf4\x9c\xca",
]
# UPDATE t SET id = 3 WHERE id = 2
RENUMBERED = [
    b"B\x00\x00\x00\x00\x01\xb1\xae\xa0\x00\x03\x03O\xaf4\xa0\xb8\x00\x00\x02\xf4",
    b"U\x00\x00@\x01K\x00\x02t\x00\x00\x00\x012nN\x00\x02t\x00\x00\x00\x013n",
    b"C\x00\x00\x00\x00\x00\x01\xb1\xae\xa0\x00\x00\x00\x00\x01\xb1\xae\xd0\x00\x03\x03O\xaf4\xa0\xb8",
]
# DELETE FROM t WHERE id = 1
DELETED = [
    b"B\x00\x00\x00\x00\x01\xb1\xaf\x10\x00\x03\x03O\xaf4\xa2$\x00\x00\x02\xf5",
    b"D\x00\x00@\x01K\x00\x02t\x00\x00\x00\x011n",
    b"C\x00\x00\x00\x00\x00\x01\xb1\xaf\x10\x00\x00\x00\x00\x01\xb1\xaf@\x00\x03\x03O\xaf4\xa2$",
]


def change(kind: Kind, key: int, row: dict[str, object] | None) -> Change:
    return Change(table="public.t", kind=kind, key=(key,), row=row)


def test_transactions_are_read_as_they_were_committed() -> None:
    inserted, renumbered, deleted = transactions([*INSERTED, *RENUMBERED, *DELETED], KEYS)
    assert inserted == Transaction(
        commit_lsn=lsn_number("0/1B1ADE0"),
        end_lsn=lsn_number("0/1B1AE10"),
        committed_ms=1_794_750_506_892,
        changes=(
            change(Kind.INSERT, 1, {"id": 1, "v": "a"}),
            change(Kind.INSERT, 2, {"id": 2, "v": None}),
        ),
    )
    assert deleted.changes == (change(Kind.DELETE, 1, None),)
    assert inserted.commit_lsn < renumbered.commit_lsn < deleted.commit_lsn


def test_a_row_with_a_new_key_is_one_gone_and_one_there() -> None:
    _, renumbered = transactions([*INSERTED, *RENUMBERED], KEYS)
    assert renumbered.changes == (
        change(Kind.DELETE, 2, None),
        change(Kind.UPDATE, 3, {"id": 3, "v": None}),
    )


def test_a_value_that_was_not_sent_is_taken_from_the_old_row() -> None:
    row = b"\x00\x02t\x00\x00\x00\x017u"
    whole = b"\x00\x02t\x00\x00\x00\x017t\x00\x00\x00\x04long"
    end = INSERTED[-1]
    [told] = transactions([RELATION, b"U\x00\x00@\x01O" + whole + b"N" + row, end], KEYS)
    assert told.changes == (change(Kind.UPDATE, 7, {"id": 7, "v": "long"}),)
    with pytest.raises(BadLog, match=r"ALTER TABLE public\.t REPLICA IDENTITY FULL"):
        transactions([RELATION, b"U\x00\x00@\x01N" + row, end], KEYS)


def test_a_transaction_without_its_end_is_not_told() -> None:
    assert transactions(INSERTED[:-1], KEYS) == []


def test_a_message_of_unknown_kind_is_refused() -> None:
    with pytest.raises(BadLog, match="unknown kind b'Z'"):
        transactions([b"Z"], KEYS)


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("t", 16, True),
        ("-5", 20, -5),
        ("1.5", 701, 1.5),
        ("NaN", 701, "NaN"),
        ("12.30", 1700, "12.30"),
        ('{"a":[1]}', 3802, {"a": [1]}),
        ("2026-01-01", 1082, "2026-01-01"),
    ],
)
def test_values_are_what_json_has_for_them(text: str, kind: int, value: object) -> None:
    assert typed(text, kind) == value


def test_positions_are_written_as_postgres_does() -> None:
    assert lsn_number("16/B374D848") == 0x16_B374D848
    assert lsn_text(0x16_B374D848) == "16/B374D848"
