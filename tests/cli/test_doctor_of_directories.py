"""`penstock doctor` on a node one of whose log directories is away."""

from collections.abc import Callable
from pathlib import Path

from confluent_kafka.admin import AdminClient, NewTopic

from rig.command import Outcome
from rig.examined import Examined
from rig.serve import ServedNode

Run = Callable[..., Outcome]
WAIT_SECONDS = 120


def test_a_log_directory_that_is_away_fails_until_it_is_back(run: Run, tmp_path: Path) -> None:
    a, b, away = tmp_path / "a", tmp_path / "b", tmp_path / "away"
    node = ServedNode(data=tmp_path / "data", settings={"log.dirs": f"{a},{b}"})

    def started() -> Examined:
        node.start()
        return Examined(run, node.bootstrap)

    examined = started()
    admin = AdminClient({"bootstrap.servers": node.bootstrap})
    admin.create_topics([NewTopic("orders", 2, 1)])["orders"].result(WAIT_SECONDS)
    [lost] = (index for index in range(2) if (b / f"orders-{index}").is_dir())
    assert examined.status("disk", "--disk-free 0") == "pass"
    assert node.stop() == 0

    b.rename(away)
    b.write_text("no directory")
    found = started().report("--disk-free 0")
    [fault] = found["disk"]["faults"]
    assert (fault["status"], fault["reason"]) == ("fail", f"broker 1 {b} is offline")
    assert fault["advice"] == "mend the disk of broker 1, and start it again"
    [fault] = found["offline"]["faults"]
    assert fault["reason"] == f"orders-{lost} has no leader"
    assert fault["advice"] == "see why the replicas on 1 do not lead: the log of that node"
    assert node.stop() == 0

    b.unlink()
    away.rename(b)
    found = started().report("--disk-free 0")
    assert (found["disk"]["status"], found["offline"]["status"]) == ("pass", "pass")
    assert node.stop() == 0
