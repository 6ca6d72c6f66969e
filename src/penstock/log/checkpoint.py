"""The small text files: checkpoints of offsets, a partition's topic id, a directory's identity.

    recovery-point-offset-checkpoint        partition.metadata        meta.properties
        0              version                  version: 0                version=1
        2              number of lines          topic_id: <base64>        cluster.id=<text>
        orders 0 120   topic partition offset                             node.id=1
        orders 1 98                                                       directory.id=<base64>

Each is replaced as a whole (`Disk.write_whole`), so a reader finds the old or the new content.
"""

from collections.abc import Iterable, Mapping

from penstock.log.errors import CorruptCheckpoint
from penstock.model.identity import NodeId, TopicId, TopicPartition, id_bytes, id_text
from penstock.model.lazy_dataclass import dataclass
from penstock.model.offset import Offset

VERSION = 0
IDENTITY_VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectoryIdentity:
    """The owner of a directory: a node never uses the directory of another node."""

    cluster_id: str
    node_id: NodeId
    directory_id: bytes  # 16 raw bytes, as a topic id


def encode_offsets(offsets: Mapping[TopicPartition, Offset]) -> bytes:
    return encode_lines(
        f"{partition.topic} {partition.partition} {offset}"
        for partition, offset in sorted(offsets.items())
    )


def decode_offsets(path: str, data: bytes) -> dict[TopicPartition, Offset]:
    offsets: dict[TopicPartition, Offset] = {}
    for fields in _decode(path, data, fields=3):
        offset = _number(path, fields[2])
        if offset < 0:
            raise CorruptCheckpoint(path, f"invalid offset {offset}")
        offsets[TopicPartition(fields[0], _number(path, fields[1]))] = Offset(offset)
    return offsets


def encode_partition_metadata(topic_id: TopicId) -> bytes:
    return f"version: {VERSION}\ntopic_id: {id_text(topic_id)}".encode()


def decode_partition_metadata(path: str, data: bytes) -> TopicId:
    values = _properties(data, separator=":")
    if values.get("version") != str(VERSION) or "topic_id" not in values:
        raise CorruptCheckpoint(path, f"expected version {VERSION} and a topic_id")
    return decode_topic_id(path, values["topic_id"])


def decode_topic_id(path: str, text: str) -> TopicId:
    return TopicId(_id(path, text))


def encode_identity(identity: DirectoryIdentity) -> bytes:
    return (
        f"version={IDENTITY_VERSION}\n"
        f"cluster.id={identity.cluster_id}\n"
        f"node.id={identity.node_id}\n"
        f"directory.id={id_text(identity.directory_id)}\n"
    ).encode()


def decode_identity(path: str, data: bytes) -> DirectoryIdentity:
    values = _properties(data, separator="=")
    missing = [
        name
        for name in ("version", "cluster.id", "node.id", "directory.id")
        if not values.get(name)
    ]
    if missing:
        raise CorruptCheckpoint(
            path, f"{', '.join(missing)} missing: the file is torn, restore it from a copy"
        )
    if values["version"] != str(IDENTITY_VERSION):
        raise CorruptCheckpoint(
            path, f"version {values['version']} is unknown, expected {IDENTITY_VERSION}"
        )
    return DirectoryIdentity(
        cluster_id=values["cluster.id"],
        node_id=NodeId(_number(path, values["node.id"])),
        directory_id=_id(path, values["directory.id"]),
    )


def encode_lines(lines: Iterable[str]) -> bytes:
    rows = list(lines)
    return "".join(f"{row}\n" for row in (VERSION, len(rows), *rows)).encode()


def decode_lines(path: str, data: bytes, *, fields: int) -> list[list[int]]:
    """The lines of a checkpoint that holds only numbers."""
    return [[_number(path, field) for field in row] for row in _decode(path, data, fields=fields)]


def _decode(path: str, data: bytes, *, fields: int) -> list[list[str]]:
    lines = _text(path, data).splitlines()
    if not lines:
        return []  # Kafka makes the file before it has something to write
    if _number(path, lines[0]) != VERSION:
        raise CorruptCheckpoint(path, f"unknown version {lines[0]}")
    rows = [line.split() for line in lines[2:]]
    if len(lines) < 2 or _number(path, lines[1]) != len(rows):
        raise CorruptCheckpoint(path, "the number of lines differs from the one in its second line")
    if any(len(row) != fields for row in rows):
        raise CorruptCheckpoint(path, f"a line does not have {fields} fields")
    return rows


def _properties(data: bytes, *, separator: str) -> dict[str, str]:
    """Lines of name and value; Java writes comments and escapes that we need not write."""
    values: dict[str, str] = {}
    for line in data.decode(errors="replace").splitlines():
        name, found, value = line.partition(separator)
        if found and not line.startswith(("#", "!")):
            values[name.strip()] = value.strip().replace("\\", "")
    return values


def _text(path: str, data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise CorruptCheckpoint(path, "is not UTF-8 text") from error


def _number(path: str, text: str) -> int:
    try:
        return int(text)
    except ValueError as error:
        raise CorruptCheckpoint(path, f"{text!r} is not a number") from error


def _id(path: str, text: str) -> bytes:
    try:
        return id_bytes(text)
    except ValueError as error:
        raise CorruptCheckpoint(path, str(error)) from error
