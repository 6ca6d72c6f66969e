"""`penstock partitions reassign` on three nodes."""

import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from penstock.cli import status
from penstock.client.admin.moving import begin_moves, cancel_moves
from penstock.client.admin.reassignments import list_reassignments
from penstock.client.admin.replication_throttle import Move
from penstock.client.network.cluster import Cluster
from penstock.client.network.errors import Refused
from penstock.model.identity import NodeId, TopicPartition
from penstock.testing import Broker, running_broker
from rig.client_cluster import run_with_cluster
from rig.cluster_questions import until
from rig.command import Outcome
from rig.live_terminal import LiveTerminal
from rig.reassigning import begin, create_on, ongoing, shown
from rig.terminal import COLORS

Run = Callable[..., Outcome]
SLOW = 2_000  # bytes a second: a move of what a test writes takes minutes


@pytest.fixture(scope="module")
def cluster() -> Iterator[Broker]:
    with running_broker(nodes=3) as broker:
        yield broker


def create(cluster: Broker, topic: str, *assignments: list[int]) -> None:
    create_on(cluster.nodes[1], topic, assignments, {"min.insync.replicas": "1"})


def write(cluster: Broker, topic: str, *, count: int = 50) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "linger.ms": 0})
    for _ in range(count):
        producer.produce(topic, os.urandom(10_000), partition=0)
        assert producer.flush(60) == 0


def moves_file(folder: Path, topic: str, *targets: list[int]) -> Path:
    path = folder / f"{topic}.json"
    partitions = [
        {"topic": topic, "partition": index, "replicas": replicas}
        for index, replicas in enumerate(targets)
    ]
    path.write_text(json.dumps({"version": 1, "partitions": partitions}))
    return path


def throttles(run: Run, topic: str) -> list[str]:
    told = run("configs describe --broker 1 --json").json()
    told += run(f"configs describe --topic {topic} --json").json()
    return sorted(one["name"] for one in told if "throttled" in one["name"])


def test_a_file_of_moves_is_done_and_watched_to_its_end(
    run: Run, cluster: Broker, tmp_path: Path
) -> None:
    create(cluster, "watched", [1, 3], [2, 3])
    write(cluster, "watched")
    path = moves_file(tmp_path, "watched", [2, 3], [1, 3])
    planned = run(f"partitions reassign {path} --dry-run --json", bootstrap=cluster.bootstrap)
    first, second = planned.json()["moves"]
    assert planned.json()["begun"] is False
    assert (first["replicas"], first["target"]) == ([1, 3], [2, 3])
    assert first["bytes"] > 500_000
    assert second["bytes"] == 0
    told = run(f"partitions reassign {path} --watch --throttle 100000000 --json").json()
    assert [one["state"] for one in told["partitions"]] == ["complete", "complete"]
    shown = run(f"partitions reassign {path} --verify")
    assert shown.status == 0
    assert shown.text.count("complete") == 2
    assert throttles(run, "watched") == []
    assert run(f"partitions reassign {path}").lines == ["nothing to move: all partitions are there"]


def test_a_watched_move_has_a_bar_on_a_terminal_that_grows_until_ctrl_c(
    run: Run, cluster: Broker, tmp_path: Path
) -> None:
    create(cluster, "drawn", [1])
    write(cluster, "drawn")
    path = moves_file(tmp_path, "drawn", [2])
    words = ["partitions", "reassign", str(path), "--throttle", "20000", "--watch"]
    with LiveTerminal([*words, "--bootstrap", cluster.bootstrap]) as terminal:
        until("the bar has grown", lambda: len(bars(terminal.received)) > 1)
        terminal.press(b"\x03")
        assert terminal.process.wait(60) == status.INTERRUPTED
    assert all(copied < whole for copied, whole in bars(terminal.received))
    cancelled = run("partitions reassign --cancel --topic drawn", bootstrap=cluster.bootstrap)
    assert cancelled.lines == ["cancelled the move of drawn-0"], "it went on without a watcher"


def bars(received: bytes) -> set[tuple[float, float]]:
    """The kilobytes that were copied, and all of them, beside each bar that was drawn."""
    drawn = COLORS.sub("", received.decode("utf-8", "replace"))
    found = re.findall(r"copied: 0 of 1 partitions \S*━\S* +([\d.]+)/([\d.]+) kB", drawn)
    return {(float(copied), float(whole)) for copied, whole in found}


def test_a_watched_move_that_somebody_cancels_fails(
    run: Run, cluster: Broker, tmp_path: Path
) -> None:
    create(cluster, "lost", [1])
    write(cluster, "lost")
    path = moves_file(tmp_path, "lost", [2])
    canceller = threading.Thread(target=cancel_when_it_moves, args=(cluster, "lost"))
    canceller.start()
    watched = run(
        f"partitions reassign {path} --watch --throttle {SLOW}", bootstrap=cluster.bootstrap
    )
    canceller.join()
    assert watched.status == 1
    assert watched.err.endswith(
        "penstock: 1 partition is not where it was to move: somebody else has cancelled or changed"
        " the move\n"
    )
    assert "elsewhere" in watched.text
    assert throttles(run, "lost") == []


def cancel_when_it_moves(cluster: Broker, topic: str) -> None:
    async def cancelled(cluster: Cluster) -> bool:
        moving = [place for place in await list_reassignments(cluster) if place.topic == topic]
        if moving:
            await cancel_moves(cluster, moving)
        return bool(moving)

    until("it moves", lambda: run_with_cluster(cluster.bootstrap, cancelled))


def test_topics_are_spread_over_the_brokers_that_are_named(run: Run, cluster: Broker) -> None:
    create(cluster, "spread", [1], [1], [1], [2])
    told = run(
        "partitions reassign --topic spread --to-brokers 2,3 --watch --json",
        bootstrap=cluster.bootstrap,
    ).json()
    held = [one["target"] for one in told["partitions"]]
    assert [one["state"] for one in told["partitions"]] == ["complete"] * 3  # the fourth stays
    assert sorted(held) == [[2], [3], [3]]


def test_a_slow_move_is_shown_speeded_up_and_cancelled(
    run: Run, cluster: Broker, tmp_path: Path
) -> None:
    create(cluster, "slow", [1])
    write(cluster, "slow")
    path = moves_file(tmp_path, "slow", [2])
    begun = run(f"partitions reassign {path} --throttle {SLOW}", bootstrap=cluster.bootstrap)
    assert (begun.status, begun.err) == (0, "moving 1 partition\n")
    assert len(throttles(run, "slow")) == 4
    [moving] = run("partitions reassign --verify --json").json()["partitions"]
    assert (moving["topic"], moving["state"]) == ("slow", "moving")
    assert 0 <= moving["copied_bytes"] < moving["whole_bytes"]
    assert "% copied" in run("partitions reassign --verify --topic slow:0").text
    assert len(throttles(run, "slow")) == 4, "it still moves"

    cancelled = run("partitions reassign --cancel --topic slow")
    assert cancelled.lines == ["cancelled the move of slow-0"]
    assert throttles(run, "slow") == []
    [there] = run(f"partitions reassign {path} --verify --json").json()["partitions"]
    assert (there["state"], there["replicas"]) == ("elsewhere", [1])

    run(f"partitions reassign {path} --throttle {SLOW}")
    told = run(f"partitions reassign {path} --throttle 100000000 --watch --json").json()
    assert [one["state"] for one in told["partitions"]] == ["complete"]
    assert throttles(run, "slow") == []


def test_a_throttle_does_not_outlast_moves_that_are_all_refused(
    run: Run, cluster: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(cluster, "refused", [1])
    place = TopicPartition("refused", 0)
    twice = Move(partition=place, replicas=(NodeId(1),), target=(NodeId(2), NodeId(2)))

    async def begin(cluster: Cluster) -> None:
        with pytest.raises(Refused, match="refused-0"):
            await begin_moves(cluster, [twice], {}, rate_bytes=SLOW, may_change_factor=True)

    monkeypatch.setenv("PENSTOCK_BOOTSTRAP", cluster.bootstrap)
    run_with_cluster(cluster.bootstrap, begin)
    assert throttles(run, "refused") == []


def test_what_cannot_be_is_one_line_and_changes_nothing(
    run: Run, cluster: Broker, tmp_path: Path
) -> None:
    create(cluster, "fixed", [1, 2])

    def refused(options: str) -> str:
        outcome = run(f"partitions reassign {options}", bootstrap=cluster.bootstrap)
        assert outcome.status != 0
        assert outcome.out == b""
        return outcome.err

    unknown = moves_file(tmp_path, "fixed", [1, 9])
    assert refused(str(unknown)) == "penstock: fixed-0: there is no broker 9, only 1,2,3\n"
    assert refused("--topic fixed --to-brokers 9") == (
        "penstock: --to-brokers: there is no broker 9, only 1,2,3\n"
    )
    assert refused("--topic fixed --to-brokers 3") == (
        "penstock: fixed-0: 2 replicas cannot be on 1 broker\n"
    )
    assert refused("--topic nope --to-brokers 3") == "penstock: nope: there is no such topic\n"
    twice = moves_file(tmp_path, "fixed", [3, 3])
    assert refused(str(twice)) == "penstock: fixed-0: a broker is named twice in 3,3\n"
    assert refused("--cancel") == "penstock: nothing to cancel: no such partition moves\n"
    beyond = moves_file(tmp_path, "fixed", [1, 2], [1])
    assert refused(str(beyond)) == "penstock: fixed-1: there is no such partition\n"
    path = tmp_path / "odd.json"
    for text, said in (
        ("[]", 'expected {"version": 1, "partitions": [...]}'),
        ('{"version": 2, "partitions": [1]}', "version 2 is not known, only 1 is"),
        ('{"partitions": [{"topic": "fixed"}]}', "partitions[0]: partition is not a number"),
    ):
        path.write_text(text)
        assert refused(str(path)) == f"penstock: {path}: {said}\n"
    assert "--topic and --to-brokers" in refused("")
    [described] = run("topics describe fixed --json").json()
    assert described["partitions"][0]["replicas"] == [1, 2]


def test_leaders_go_back_to_the_preferred_replica(run: Run, cluster: Broker) -> None:
    create(cluster, "elected", [1, 2], [2, 3])
    cluster.stop(2)
    until("broker 3 leads", lambda: leader(run, cluster, "elected", 1) == 3)
    cluster.start(2)
    told: list[dict[str, object]] = []

    def is_back() -> bool:
        nonlocal told
        told = run("partitions elect-leaders elected:0,1 --json", bootstrap=cluster.nodes[1]).json()
        return told[1]["elected"] is True

    until("it can lead", is_back)
    assert told[0] == {
        "topic": "elected",
        "partition": 0,
        "before": 1,
        "leader": 1,
        "elected": False,
        "error": None,
    }
    assert (told[1]["before"], told[1]["leader"]) == (3, 2)
    shown = run("partitions elect-leaders elected")
    assert shown.text.count("not needed") == 2
    refused = run("partitions elect-leaders --unclean")
    assert refused.status == 2
    assert "records may be lost" in refused.err


def leader(run: Run, cluster: Broker, topic: str, partition: int) -> object:
    [described] = run(f"topics describe {topic} --json", bootstrap=cluster.nodes[1]).json()
    return described["partitions"][partition]["leader"]


def test_the_replicas_of_a_topic_are_raised_and_lowered(run: Run, cluster: Broker) -> None:
    create(cluster, "raised", [2], [3])
    write(cluster, "raised", count=1)
    command = "partitions reassign --topic raised --to-brokers 1,2,3 --watch --json --replicas"
    raised = run(f"{command} 3", bootstrap=cluster.bootstrap).json()
    assert [set(one["target"]) for one in raised["partitions"]] == [{1, 2, 3}] * 2
    [told] = run("topics describe raised --json").json()
    assert [len(one["in_sync"]) for one in told["partitions"]] == [3, 3]
    run(f"{command} 2")
    [told] = run("topics describe raised --json").json()
    assert [len(one["replicas"]) for one in told["partitions"]] == [2, 2]
    alone = run("partitions reassign --verify --replicas 2")
    assert alone.status == 2
    assert "--replicas is for --topic and --to-brokers" in alone.err
    too_many = run("partitions reassign --topic raised --to-brokers 1,2,3 --replicas 4")
    assert too_many.err == "penstock: raised-0: 4 replicas cannot be on 3 brokers\n"


@pytest.mark.penstock(nodes=4, settings={"min.insync.replicas": 1})
def test_a_drain_that_is_asked_for_again_while_it_runs_adds_no_replicas(
    run: Run, penstock: Broker
) -> None:
    create(penstock, "drained", [1, 2])
    write(penstock, "drained")
    command = f"partitions reassign --drain 1 --throttle {SLOW} --json"
    [first] = run(command, bootstrap=penstock.bootstrap).json()["moves"]
    [again] = run(command).json()["moves"]
    assert len(first["target"]) == 2
    assert again["target"] == first["target"]
    [moving] = ongoing(penstock.nodes[1])
    assert moving.removing_replicas == [1]
    assert len(moving.replicas) == 3
    spread = "partitions reassign --topic drained --to-brokers 2,3,4 --json"
    assert run(f"{spread} --throttle {SLOW}").json()["moves"] == [again]
    three = run(f"{spread} --replicas 3 --throttle 100000000 --watch").json()["partitions"]
    assert [set(one["target"]) for one in three] == [{2, 3, 4}], "asked for, so it may change"


@pytest.mark.penstock(nodes=3, settings={"min.insync.replicas": 1})
def test_no_throttle_is_left_when_a_topic_is_deleted_while_it_moves(
    run: Run, penstock: Broker
) -> None:
    create(penstock, "kept", [1])
    create(penstock, "deleted", [1])
    write(penstock, "deleted")
    path = penstock.data / "moves.json"
    targets = [{"topic": name, "partition": 0, "replicas": [2]} for name in ("deleted", "kept")]
    path.write_text(json.dumps({"version": 1, "partitions": targets}))
    command = [sys.executable, "-m", "penstock.cli.main", "partitions", "reassign", str(path)]
    with subprocess.Popen(
        [*command, "--throttle", str(SLOW), "--watch", "--json"],
        env={**os.environ, "PENSTOCK_BOOTSTRAP": penstock.bootstrap},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as watching:
        until("only one moves", lambda: len(ongoing(penstock.nodes[1])) == 1)
        assert run("topics delete deleted", bootstrap=penstock.bootstrap).status == 0
        out, err = watching.communicate(timeout=60)
    assert "there is no such topic" not in err
    assert [one["state"] for one in json.loads(out)["partitions"]] == ["elsewhere", "complete"]
    assert throttles(run, "kept") == []
    assert run("partitions reassign --verify --json").json()["throttles_removed"] == []


@pytest.mark.penstock(nodes=5, settings={"min.insync.replicas": 1})
def test_a_move_that_cannot_be_cancelled_keeps_no_throttle_of_those_that_were(
    run: Run, penstock: Broker
) -> None:
    """One of them began on a node that has been killed since: only a new replica has all."""
    create(penstock, "stuck", [3])
    create(penstock, "cancelled", [1])
    penstock.kill(4)
    path = penstock.data / "moves.json"
    targets = [
        {"topic": "stuck", "partition": 0, "replicas": [1, 4]},
        {"topic": "cancelled", "partition": 0, "replicas": [4]},
    ]
    path.write_text(json.dumps({"version": 1, "partitions": targets}))
    at = penstock.nodes[1]
    begun = run(f"partitions reassign {path} --throttle 100000000", bootstrap=at)
    assert begun.status == 0, begun.err
    until("a new replica is in sync", lambda: 1 in shown(at, "stuck").isr_nodes)
    penstock.kill(3)
    until("it leads", lambda: shown(at, "stuck").leader_id == 1)
    told = run("partitions reassign --cancel")
    assert told.status == 1
    assert "cancelled the move of cancelled-0" in told.lines
    assert "cancelled the move of stuck-0" not in told.lines
    refusal = told.err.splitlines()[-1]
    assert refusal.startswith("penstock: stuck-0: Unable to revert partition assignment")
    settings = run("configs describe --topic cancelled --json").json()
    assert [one["name"] for one in settings if "throttled" in one["name"]] == []


@pytest.mark.penstock(nodes=4, settings={"min.insync.replicas": 1})
def test_a_move_that_has_ended_meanwhile_is_no_obstacle_to_a_cancel(penstock: Broker) -> None:
    create(penstock, "several", [1], [2])
    penstock.kill(4)
    begin(penstock.nodes[1], "several", 4)
    moving, ended = (TopicPartition("several", index) for index in range(2))
    deleted = TopicPartition("deleted", 0)
    told = run_with_cluster(
        penstock.nodes[1], lambda cluster: cancel_moves(cluster, [deleted, ended, moving])
    )
    assert (told.cancelled, told.ended, told.refused) == ([moving], [deleted, ended], [])
    assert ongoing(penstock.nodes[1]) == []
