"""Stored bytes that cannot be right are told in the log: once, with file and position."""

import logging
from pathlib import Path

import pytest

from penstock.model.error import ErrorCode
from rig.data_requests import at, fetch, fetch_request, only, produce
from rig.produced import produced
from rig.services import Broker


def test_a_sealed_segment_cut_short_while_stopped_is_told_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    first = Broker(tmp_path)
    first.create_topic("t")
    produce(first, "t", produced(1))
    produce(first, "t", produced(1))
    first.partition("t").log.roll()
    produce(first, "t", produced(1))
    sealed = Path(first.partition("t").log.segments[0].file.path)
    first.close()
    with sealed.open("r+b") as file:
        file.truncate(sealed.stat().st_size - 5)
    second = Broker(tmp_path)
    second.create_topic("t")
    with caplog.at_level(logging.ERROR):
        for _ in range(3):
            answer = only(fetch(second, fetch_request("t", at(1))))
            assert answer.error_code == ErrorCode.CORRUPT_MESSAGE
    [line] = caplog.messages
    assert "partition=t-0" in line
    assert sealed.name in line
    second.close()
