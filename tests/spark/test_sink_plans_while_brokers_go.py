"""A batch is planned though a broker goes while it answers: others, or it, are asked again."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.client.network.errors import ConnectionLost
from penstock.spark.options import ConnectionOptions
from penstock.spark.sink.decision import Claim
from penstock.spark.sink.driver import LOST_ANSWERS_MAX, Plan, plan_batch, plan_write
from penstock.spark.sink.options import SinkOptions
from penstock.wire.api import ApiKey
from rig.cutting_relay import CuttingRelay
from rig.held_port import HeldPort
from rig.serve import ServedNode

DECISIONS = "decisions"


@pytest.fixture
def relay(tmp_path: Path) -> Iterator[CuttingRelay]:
    own, relayed = HeldPort(), HeldPort()
    settings = {
        "listeners": f"PLAINTEXT://{own.address}",
        "advertised.listeners": f"PLAINTEXT://{relayed.address}",
        "transaction.two.phase.commit.enable": "true",
    }
    node = ServedNode(data=tmp_path / "node", settings=settings)
    node.start()
    key = int(ApiKey.DESCRIBE_CONFIGS)
    with CuttingRelay(port=relayed.number, to=own.address, api_key=key, cuts=0) as relay:
        yield relay
    assert node.stop() == 0


def options_of(relay: CuttingRelay) -> SinkOptions:
    connection = ConnectionOptions(bootstrap=relay.address)
    return SinkOptions(connection=connection, decision_topic=DECISIONS)


async def planned(options: SinkOptions, *, of_foreach_batch: bool) -> Plan:
    if of_foreach_batch:
        claim = Claim(query_id="query", run_id="run")
        return await plan_write(options, "sink", claim, 0, once=False)
    return await plan_batch(options, "sink")


@pytest.mark.parametrize("of_foreach_batch", [True, False])
def test_a_batch_is_planned_though_its_questions_are_cut_off(
    relay: CuttingRelay, of_foreach_batch: bool
) -> None:
    options = options_of(relay)
    asyncio.run(plan_batch(options, "other"))  # there is a topic, whose settings are asked for
    relay.cuts_left = 2
    assert asyncio.run(planned(options, of_foreach_batch=of_foreach_batch)).sink == "sink"
    assert relay.cuts_left == 0


def test_a_cluster_that_cuts_off_each_question_is_not_asked_for_ever(relay: CuttingRelay) -> None:
    options = options_of(relay)
    asyncio.run(plan_batch(options, "other"))
    relay.cuts_left = LOST_ANSWERS_MAX + 1
    with pytest.raises(ConnectionLost):
        asyncio.run(plan_batch(options, "sink"))
    assert relay.cuts_left == 0
