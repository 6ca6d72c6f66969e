"""Log lines for people and for programs say the same, and nothing in them commands a terminal."""

import io
import json
import logging
import re
from collections.abc import Mapping

import pytest

from penstock.cli.logs import JsonFormatter, KeyValueFormatter, Limited, LogFormat, log_to_stderr
from penstock.model.events import BROKER_FENCED, EVENTS, LEADER_CHANGED, NODE_FAILED, Event
from penstock.world.event_limit import EventLimit
from penstock.world.event_log import Told, Value, shown, tell

HOSTILE = 'a b="c"\x1b[2J\r\n{"event":"forged"} \x7f\x9b31m\u202e\\n=\ud800'
PAIR = re.compile(r'([\w.]+)=("(?:[^"\\]|\\.)*"|\S*)')
NODE = 7


def record_of(
    message: object, *arguments: object, level: int = logging.WARNING
) -> logging.LogRecord:
    return logging.LogRecord("penstock.here", level, "here.py", 1, message, arguments, None)


def record_of_event(event: Event, fields: Mapping[str, Value]) -> logging.LogRecord:
    return record_of(Told(event, fields), level=event.level)


def fields_of_text(line: str) -> dict[str, str]:
    """As a reader of the text form would take them out of it."""
    return {
        key: json.loads(value) if value.startswith('"') else value
        for key, value in PAIR.findall(line)
    }


@pytest.mark.parametrize("event", EVENTS.values(), ids=EVENTS)
def test_both_formats_of_an_event_have_the_same_fields(event: Event) -> None:
    fields: dict[str, Value] = {
        name: [17, HOSTILE + name, None, "one"][at % 4] for at, name in enumerate(event.fields)
    }
    record = record_of_event(event, fields)
    text = KeyValueFormatter(NODE).format(record)
    line = JsonFormatter(NODE).format(record)
    for one in (text, line):
        assert one.isprintable()  # one line, and no control byte
    found = json.loads(line)
    frame = {"time", "level", "node", "logger", "event", "message"}
    assert found.keys() - frame == set(event.fields)
    assert frame <= found.keys()
    assert found["event"] == event.name
    assert found["node"] == NODE
    assert found["level"] == event.level.name.lower()
    assert found["logger"] == "penstock.here"
    read = fields_of_text(text)
    for name, value in fields.items():
        assert found[name] == value
        assert read[name] == ("none" if value is None else str(value))
    assert read["event"] == event.name
    assert read["level"] == found["level"]
    assert read["time"] == found["time"]
    assert read["at"] == found["logger"]
    assert event.says in text
    assert found["message"] == event.says


def test_a_line_for_people_reads_well() -> None:
    event = record_of_event(
        LEADER_CHANGED,
        {"partition": "orders-0", "old_leader": None, "leader": 2, "isr": [2, 3], "reason": "a b"},
    )
    line = KeyValueFormatter(NODE).format(event)
    assert line.partition(" level=")[2] == (
        "info node=7 at=penstock.here event=partition.leader_changed partition leader changed"
        ' partition=orders-0 old_leader=none leader=2 isr=2,3 reason="a b"'
    )


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "none"),
        (True, "true"),
        (5, "5"),
        ("", '""'),
        ("a=b", '"a=b"'),
        ((), "none"),
        ((1, 2), "1,2"),
        (OSError("no room"), '"no room"'),
    ],
)
def test_values_of_text(value: Value, text: str) -> None:
    assert shown(value) == text


def test_a_note_has_the_fields_of_its_text() -> None:
    record = record_of("retention partition=%s bytes=%d kept=%s 5%%", "t-0", 9, HOSTILE)
    line = json.loads(JsonFormatter(NODE).format(record))
    assert line["event"] == "note"
    assert (line["partition"], line["bytes"], line["kept"]) == ("t-0", 9, HOSTILE)
    assert line["message"] == f"retention partition=t-0 bytes=9 kept={HOSTILE} 5%"
    assert JsonFormatter(NODE).format(record).isprintable()
    assert KeyValueFormatter(NODE).format(record).isprintable()


def test_a_field_of_a_note_hides_nothing_that_every_line_has() -> None:
    line = json.loads(JsonFormatter(NODE).format(record_of("time=%s level=%s", "never", "low")))
    assert line["level"] == "warning"
    assert (line["time_"], line["level_"]) == ("never", "low")


def test_a_traceback_stays_in_its_line_of_json() -> None:
    try:
        raise ValueError(HOSTILE)
    except ValueError as error:
        record = record_of_event(NODE_FAILED, {"reason": error})
        record.exc_info = (ValueError, error, error.__traceback__)
    line = JsonFormatter(NODE).format(record)
    assert line.isprintable()
    assert "Traceback" in json.loads(line)["exception"]
    assert json.loads(line)["reason"] == HOSTILE


def test_lines_beyond_the_limit_are_left_out_and_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = [0]
    monkeypatch.setattr("time.monotonic_ns", lambda: now[0])
    limited = Limited(EventLimit(lines_max=1, interval_ms=1_000))

    def passed(broker: int) -> str | None:
        record = record_of_event(BROKER_FENCED, {"broker": broker})
        return JsonFormatter(NODE).format(record) if limited.filter(record) else None

    first = passed(1)
    assert first is not None and "left_out" not in json.loads(first)
    assert [passed(1), passed(1)] == [None, None]
    assert passed(2) is not None
    now[0] = 1_000_000_000
    again = passed(1)
    assert again is not None and json.loads(again)["left_out"] == 2


def test_an_event_that_nobody_wants_is_not_even_made() -> None:
    made = 0

    class Counted(Exception):
        def __str__(self) -> str:
            nonlocal made
            made += 1
            return "text"

    written = io.StringIO()
    quiet, loud = logging.Logger("quiet", logging.CRITICAL), logging.Logger("loud", logging.DEBUG)
    for logger in (quiet, loud):
        logger.addHandler(logging.StreamHandler(written))
    tell(quiet, BROKER_FENCED, broker=1, reason=Counted())
    assert (made, written.getvalue()) == (0, "")
    tell(loud, BROKER_FENCED, broker=1, reason=Counted())
    assert made > 0
    assert "reason=text" in written.getvalue()


@pytest.mark.parametrize("log_format", LogFormat)
def test_the_handler_of_the_process_writes_the_format_that_is_asked_for(
    log_format: LogFormat, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    root = logging.RootLogger(logging.WARNING)
    monkeypatch.setattr(logging, "root", root)
    log_to_stderr(logging.INFO, log_format=log_format, node_id=NODE)
    root.info("said=%s", "so")
    written = capsys.readouterr().err
    is_json = written.startswith("{")
    assert is_json == (log_format is LogFormat.JSON)
    assert ("so" in written, "7" in written) == (True, True)
