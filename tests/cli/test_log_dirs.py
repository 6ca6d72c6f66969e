"""`penstock cluster log-dirs`."""

from collections.abc import Callable

import pytest

from penstock.testing import Broker
from rig.command import Outcome

Run = Callable[..., Outcome]


@pytest.mark.penstock(nodes=3)
def test_replicas_and_room_of_each_broker_are_shown(run: Run, penstock: Broker) -> None:
    wide, other = penstock.topic(partitions=3), penstock.topic()
    told = run("cluster log-dirs --json", bootstrap=penstock.bootstrap).json()
    assert [one["broker"] for one in told] == [1, 2, 3]
    for one in told:
        [directory] = one["directories"]
        assert directory["error"] is None
        assert 0 < directory["usable_bytes"] <= directory["total_bytes"]
    some = run(f"cluster log-dirs --broker 2 --topic {wide}:0,2 --json").json()
    [[directory]] = [one["directories"] for one in some]
    assert {(one["topic"], one["partition"]) for one in directory["replicas"]} == {
        (wide, 0),
        (wide, 2),
    }
    shown = run("cluster log-dirs --partitions")
    assert shown.status == 0
    assert other in shown.text
    assert shown.text.count("online") == 3


def test_unknown_broker_is_one_line(run: Run, penstock: Broker) -> None:
    refused = run("cluster log-dirs --broker 9", bootstrap=penstock.bootstrap)
    assert (refused.status, refused.err) == (
        1,
        "penstock: no broker 9 is known in the cluster\n",
    )
