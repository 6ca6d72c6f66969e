"""Where brokers do not allow two-phase commit, the sink says how to allow it."""

import asyncio
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.spark.sink.errors import NoTwoPhase
from penstock.spark.sink.options import TwoPhase
from penstock.spark.sink.two_phase import has_two_phase, warn_of_time_out
from rig.serve import ServedNode
from rig.sink_output import cluster_at

LINE = "penstock serve --set transaction.two.phase.commit.enable=true"


@pytest.fixture
def plain_node(tmp_path: Path) -> Iterator[ServedNode]:
    """With the settings that a node has by itself."""
    node = ServedNode(data=tmp_path / "node")
    node.start()
    yield node
    assert node.stop() == 0


def test_command_that_allows_two_phase_commit_is_in_the_message(
    plain_node: ServedNode, caplog: pytest.LogCaptureFixture
) -> None:
    async def allowed(wish: TwoPhase) -> bool:
        async with cluster_at(plain_node.bootstrap) as cluster:
            return await has_two_phase(cluster, "sink", wish)

    with pytest.raises(NoTwoPhase) as refused:
        asyncio.run(allowed(TwoPhase.REQUIRED))
    assert LINE in str(refused.value)
    assert not asyncio.run(allowed(TwoPhase.AUTO))
    with caplog.at_level(logging.WARNING):
        warn_of_time_out("sink")
    assert LINE in caplog.text
