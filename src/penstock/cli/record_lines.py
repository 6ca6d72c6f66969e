"""How a record is printed: by a format, or as an object of JSON."""

import base64
import json
from dataclasses import dataclass
from typing import BinaryIO

from penstock.cli.escape import escaped_json
from penstock.cli.record_format import RecordFormat
from penstock.client.consume.fetched_data import ConsumedRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class Printer:
    out: BinaryIO
    format: RecordFormat | None  # None: JSON
    raw: bool = True  # else what could command a terminal is escaped

    def print(self, record: ConsumedRecord) -> None:
        if self.format is None:
            self.out.write(json_line(record))
        else:
            self.out.write(self.format.line(record, raw=self.raw))

    def flush(self) -> None:
        self.out.flush()


def json_line(record: ConsumedRecord) -> bytes:
    """One object; see `json_fields`."""
    return escaped_json(json.dumps(json_fields(record), ensure_ascii=False)).encode() + b"\n"


def json_fields(record: ConsumedRecord) -> dict[str, object]:
    """Bytes that are no UTF-8 stand in base64 under another name."""
    return {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp_ms": record.timestamp_ms,
        **_text_field("key", record.key),
        **_text_field("value", record.value),
        "headers": [{"name": n, **_text_field("value", v)} for n, v in record.headers],
    }


def _text_field(name: str, content: bytes | None) -> dict[str, str | None]:
    if content is None:
        return {name: None}
    try:
        return {name: content.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(content).decode()}
