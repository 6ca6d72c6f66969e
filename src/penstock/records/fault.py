"""What can be wrong with the records of a batch, in the words that kernel and twin share."""

from enum import IntEnum

from penstock.records.errors import CorruptBatch


class Fault(IntEnum):
    """Numbered as in `kernel/varint.pxd`."""

    ENDS_WITHIN_RECORD = 1
    NUMBER_TOO_LARGE = 2
    NUMBER_WITHOUT_END = 3
    RECORD_BEYOND_BATCH = 4
    RECORD_OF_OTHER_SIZE = 5
    FIELD_BEYOND_RECORD = 6
    TOO_MANY_HEADERS = 7
    HEADER_WITHOUT_KEY = 8
    BYTES_LEFT = 9


def corrupt(fault: int, number: int = 0) -> CorruptBatch:
    """The error to raise; `number` is the index of the record, or how many bytes are left."""
    return CorruptBatch(SENTENCES[fault].format(number))


SENTENCES: dict[int, str] = {
    Fault.ENDS_WITHIN_RECORD: "the batch ends within a record",
    Fault.NUMBER_TOO_LARGE: "a number is out of range",
    Fault.NUMBER_WITHOUT_END: "a number does not end",
    Fault.RECORD_BEYOND_BATCH: "record {} is longer than the batch",
    Fault.RECORD_OF_OTHER_SIZE: "record {} is not as long as it says",
    Fault.FIELD_BEYOND_RECORD: "a field is longer than its record",
    Fault.TOO_MANY_HEADERS: "more headers than the record has room for",
    Fault.HEADER_WITHOUT_KEY: "a header without a key",
    Fault.BYTES_LEFT: "{} bytes after the last record",
}
assert set(SENTENCES) == set(Fault)
