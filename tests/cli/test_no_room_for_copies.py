"""Partitions are not moved to a broker whose disk has no room for them."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

from penstock.model.limit import KIB, MIB
from penstock.testing import running_broker
from rig.command import Outcome
from rig.operating.balancing import SkewedLoad
from rig.reassigning import create_on, ongoing
from rig.small_disk import small_disk

Run = Callable[..., Outcome]
DISK_BYTES = 64 * MIB
FREE_BYTES = 6 * MIB  # half of which is the reserve


def leave_free(disk: Path) -> None:
    stat = os.statvfs(disk)
    with (disk / "ballast").open("wb") as file:
        for _ in range((stat.f_bavail * stat.f_frsize - FREE_BYTES) // (64 * KIB)):
            file.write(bytes(64 * KIB))


def on_disk(data: Path, node: int, disk: Path) -> Path:
    """The same data, of which those of a node are there."""
    there = disk / f"node-{node}"
    shutil.move(data / there.name, there)
    (data / there.name).symlink_to(there)
    return data


def test_a_move_and_a_balance_that_do_not_fit_are_refused(run: Run, tmp_path: Path) -> None:
    data = tmp_path / "data"
    with running_broker(nodes=2, data=data):
        pass  # lays the directories out
    with (
        small_disk(tmp_path / "disk", size_bytes=DISK_BYTES) as disk,
        running_broker(
            nodes=2, data=on_disk(data, 2, disk), settings={"min.insync.replicas": 1}
        ) as broker,
    ):
        at = broker.bootstrap
        create_on(broker.nodes[1], "large", [[1], [1]])
        for index in range(2):
            values = [os.urandom(100_000) for _ in range(50)]
            broker.produce("large", values, partition=index)
        leave_free(disk)
        moves = tmp_path / "moves.json"
        targets = [{"topic": "large", "partition": 0, "replicas": [2]}]
        moves.write_text(json.dumps({"version": 1, "partitions": targets}))
        refused = run(f"partitions reassign {moves}", bootstrap=at)
        assert (refused.status, refused.out) == (1, b"")
        assert refused.err.startswith("penstock: broker 2 would get 50")
        assert refused.err.endswith(": give --ignore-room to move them nevertheless\n")
        assert ongoing(broker.nodes[1]) == []
        allowed = run(f"partitions reassign {moves} --dry-run --ignore-room")
        assert allowed.status == 0, allowed.err
        with SkewedLoad(at, "large", partitions=2):
            balance = run("partitions balance --for 2s --yes")
        assert balance.status == 1
        assert "penstock: broker 2 would get " in balance.err
        assert "changes, " in balance.text, "the plan is shown"
        assert ongoing(broker.nodes[1]) == []
