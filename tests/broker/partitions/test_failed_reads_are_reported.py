"""What a disk does not give is told in the log, with its file: once for each log, however often
readers ask for it.
"""

import errno
import logging
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from penstock.broker.api import list_offsets
from penstock.model.error import ErrorCode
from penstock.model.identity import NodeId
from penstock.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from rig.data_requests import at, fetch, fetch_request, only, produce
from rig.fetching_follower import FetchingFollower, position
from rig.produced import NOW_MS, produced
from rig.services import NODE, OTHER, Broker


def consumed(broker: Broker) -> int:
    return only(fetch(broker, fetch_request("t", at(1)))).error_code


def followed(broker: Broker) -> int:
    follower = FetchingFollower(broker, broker.partition("t").topic_id)
    return follower.fetch(position(1))[0].error_code


def timed(broker: Broker) -> int:
    asked = ListOffsetsPartition(partition_index=0, timestamp=NOW_MS + 1)
    request = ListOffsetsRequest(topics=[ListOffsetsTopic(name="t", partitions=[asked])])
    response = broker.ask(list_offsets.API, request, ListOffsetsResponse, version=7)
    return response.topics[0].partitions[0].error_code


@pytest.mark.parametrize(
    ("replicas", "ask"),
    [((NODE,), consumed), ((NODE, OTHER), followed), ((NODE,), timed)],
    ids=["consumer", "follower", "by time"],
)
def test_a_read_that_the_disk_refuses_is_told_once(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    replicas: tuple[NodeId, ...],
    ask: Callable[[Broker], int],
) -> None:
    codes, segment = refused(tmp_path, caplog, errno.EIO, replicas, ask)
    assert codes == [ErrorCode.KAFKA_STORAGE_ERROR] * 3
    assert caplog.messages == [f'disk read failed file={segment} reason="Input/output error"']


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE, errno.ENOMEM])
def test_a_want_of_descriptors_or_memory_is_not_told_as_a_bad_disk(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, number: int
) -> None:
    codes, segment = refused(tmp_path, caplog, number, (NODE,), consumed)
    assert codes == [ErrorCode.KAFKA_STORAGE_ERROR] * 3
    told = f'disk read delayed file={segment} reason="{os.strerror(number)}"'
    assert set(caplog.messages) == {told}


def refused(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    number: int,
    replicas: tuple[NodeId, ...],
    ask: Callable[[Broker], int],
) -> tuple[list[int], str]:
    """What three requests get while no file can be read, and the file that they are about."""
    before = Broker(tmp_path)
    before.create_topic("t")
    for _ in range(3):
        produce(before, "t", produced(3))
    before.partition("t").log.roll()
    produce(before, "t", produced(1))
    before.close()
    broker = Broker(tmp_path)
    broker.create_topic("t", replicas=replicas)
    segment = broker.partition("t").log.segments[0].file.path

    def refuse(*_: object) -> bytes:
        raise OSError(number, os.strerror(number))

    with pytest.MonkeyPatch.context() as patched, caplog.at_level(logging.ERROR):
        patched.setattr(os, "pread", refuse)
        codes = [ask(broker) for _ in range(3)]
    broker.close()
    return codes, segment
