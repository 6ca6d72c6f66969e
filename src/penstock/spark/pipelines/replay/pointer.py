"""Which version of a view readers read: one record of a compacted topic for each view. Pure.

    key    balances
    value  {"version": 2, "topic": "replay.balances.v2"}

A pointer only goes forward, so that a job of an old version, started again by mistake, does not
take readers back.
"""

import json
from dataclasses import dataclass

from penstock.model.error import PenstockError


class BadPointer(PenstockError):
    """A record in the topic of pointers that is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pointer:
    view: str
    version: int
    topic: str

    def __post_init__(self) -> None:
        assert self.version >= 1


def goes_forward(standing: Pointer | None, wanted: Pointer) -> bool:
    assert standing is None or standing.view == wanted.view
    return standing is None or standing.version < wanted.version


def encode(pointer: Pointer) -> tuple[bytes, bytes]:
    """Key and value."""
    value = {"version": pointer.version, "topic": pointer.topic}
    return pointer.view.encode(), json.dumps(value).encode()


def decode(key: bytes, value: bytes) -> Pointer:
    try:
        told = json.loads(value)
        version, topic = told["version"], told["topic"]
        view = key.decode()
    except (ValueError, TypeError, KeyError) as error:
        raise BadPointer(f"{key!r} points nowhere: {value!r}") from error
    if not isinstance(version, int) or version < 1 or not isinstance(topic, str):
        raise BadPointer(f"{key!r} points nowhere: {value!r}")
    return Pointer(view=view, version=version, topic=topic)
