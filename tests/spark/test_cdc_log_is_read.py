"""What PostgreSQL 18 wrote, byte for byte, as transactions."""

import pytest

from penstock.spark.pipelines.cdc.pgoutput import (
    BadLog,
    Begin,
    CapturedTable,
    Change,
    Column,
    Commit,
    Decoder,
    Event,
    Kind,
    Schema,
    TableRenamed,
    Truncate,
    lsn_number,
    lsn_text,
    typed,
)

TYPES = {23: "integer", 25: "text"}
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


# TRUNCATE t RESTART IDENTITY
TRUNCATED = b"T\x00\x00\x00\x01\x02\x00\x00@\x01"
SCHEMA = Schema(
    table="public.t",
    columns=(
        Column(name="id", type="integer", modifier=None),
        Column(name="v", type="text", modifier=None),
    ),
)


def change(kind: Kind, key: int, row: dict[str, object] | None) -> Change:
    return Change(table="public.t", kind=kind, key=(key,), row=row)


def events(*messages: bytes, after: str = "0/0", table: str = "public.t") -> list[Event]:
    captured = CapturedTable(key=("id",), after_lsn=lsn_number(after))
    decoder = Decoder({table: captured}, TYPES)
    return [event for message in messages for event in decoder.read(message)]


def test_transactions_are_read_as_they_were_committed() -> None:
    begin, schema, *inserted, commit = events(*INSERTED)
    assert begin == Begin(
        commit_lsn=lsn_number("0/1B1ADE0"),
        committed_ms=1_794_750_506_892,
    )
    assert schema == SCHEMA
    assert inserted == [
        change(Kind.INSERT, 1, {"id": 1, "v": "a"}),
        change(Kind.INSERT, 2, {"id": 2, "v": None}),
    ]
    assert commit == Commit(commit_lsn=lsn_number("0/1B1ADE0"), end_lsn=lsn_number("0/1B1AE10"))
    assert events(*INSERTED, *DELETED)[-2] == change(Kind.DELETE, 1, None)


def test_a_row_with_a_new_key_is_one_gone_and_one_there() -> None:
    assert events(*INSERTED, *RENUMBERED)[-3:-1] == [
        change(Kind.DELETE, 2, None),
        change(Kind.UPDATE, 3, {"id": 3, "v": None}),
    ]


def test_a_value_that_was_not_sent_is_taken_from_the_old_row() -> None:
    row = b"\x00\x02t\x00\x00\x00\x017u"
    whole = b"\x00\x02t\x00\x00\x00\x017t\x00\x00\x00\x04long"
    update = b"U\x00\x00@\x01O" + whole + b"N" + row
    assert events(INSERTED[0], RELATION, update)[-1] == change(
        Kind.UPDATE, 7, {"id": 7, "v": "long"}
    )
    with pytest.raises(BadLog, match=r"ALTER TABLE public\.t REPLICA IDENTITY FULL"):
        events(INSERTED[0], RELATION, b"U\x00\x00@\x01N" + row)


def test_truncation_names_the_table() -> None:
    _, _, truncate = events(INSERTED[0], RELATION, TRUNCATED)
    assert truncate == Truncate(table="public.t")


def test_what_a_topic_has_already_and_other_tables_are_not_decoded() -> None:
    undecodable = b"U\x00\x00@\x01N\x00\x02t\x00\x00\x00\x017u"
    messages = [INSERTED[0], RELATION, undecodable, TRUNCATED, INSERTED[-1]]
    assert [type(one) for one in events(*messages, after="0/1B1ADE0")] == [Begin, Commit]
    assert [type(one) for one in events(*messages, table="public.other")] == [Begin, Commit]


def test_a_table_is_described_when_it_is_first_changed_and_when_it_differs() -> None:
    wider = (
        b"R\x00\x00@\x01public\x00t\x00d\x00\x02\x01id\x00\x00\x00\x00\x17\xff\xff\xff\xff"
        b"\x00w\x00\x00\x00\x00\x19\xff\xff\xff\xff"
    )
    insert = b"I\x00\x00@\x01N\x00\x02t\x00\x00\x00\x015n"
    found = events(INSERTED[0], RELATION, insert, RELATION, insert, wider, insert)
    schemas = [one for one in found if isinstance(one, Schema)]
    assert [[column.name for column in one.columns] for one in schemas] == [
        ["id", "v"],
        ["id", "w"],
    ]


def test_a_table_under_another_name_is_refused() -> None:
    renamed = RELATION.replace(b"public\x00t", b"public\x00s")
    with pytest.raises(TableRenamed, match=r"public\.t is now public\.s"):
        events(INSERTED[0], RELATION, renamed)


def test_a_message_of_unknown_kind_is_refused() -> None:
    with pytest.raises(BadLog, match="unknown kind b'Z'"):
        events(b"Z")


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
