"""How `penstock doctor` tells what it found, and how it ends where little can be asked."""

import asyncio
import json
import re
import shlex
import socket
import threading
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import Consumer, TopicPartition

from penstock.client.network.bootstrap import parse_addresses
from penstock.client.network.cluster import Cluster
from penstock.doctor.finding import Status
from penstock.doctor.gather import RULES, gather
from penstock.doctor.machines import clock
from penstock.doctor.seen import ClockSeen, ClusterSeen, Limits
from penstock.testing import Broker, running_broker
from penstock.world.clock import RealClock
from penstock.world.tcp import TcpNetwork
from rig.command import Outcome
from rig.held_port import HeldPort
from rig.terminal import on_terminal

Run = Callable[..., Outcome]
HOSTILE = "evil\x1b[2J\nforged \x9b31m\u202e[red]x[/red]"
LONG = "a-topic-whose-name-is-longer-than-most-terminals-of-eighty-columns-would-like-to-show"


def commit_as(group: str, broker: Broker) -> None:
    topic = broker.topic()
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": group})
    consumer.commit(offsets=[TopicPartition(topic, 0, 0)], asynchronous=False)
    consumer.close()


@pytest.mark.parametrize("columns", [60, 80])
def test_the_report_fits_the_terminal(columns: int, penstock: Broker) -> None:
    penstock.topic("orders", retention_ms=1)
    penstock.topic(LONG[:40], retention_ms=-1)
    lines = on_terminal(
        ["doctor"], columns=columns, bootstrap=penstock.bootstrap, status=1, with_errors=False
    )
    assert len(lines) > 25
    assert max(map(len, lines)) <= columns


def test_a_command_that_is_broken_into_lines_is_still_one_for_a_shell(penstock: Broker) -> None:
    penstock.topic("orders", retention_ms=1)
    lines = on_terminal(
        ["doctor", "--bootstrap", penstock.bootstrap], columns=60, status=1, with_errors=False
    )
    start = lines.index("retention:") + 1
    assert lines[start].endswith(" \\")
    said = shlex.split("\n".join(lines[start : start + 2]).replace("\\\n", ""))
    assert said == shlex.split(
        f"penstock topics alter orders --set retention.ms=604800000"
        f" --bootstrap {penstock.bootstrap}"
    )


def test_progress_is_shown_on_a_terminal_and_nowhere_else(run: Run, penstock: Broker) -> None:
    shown = on_terminal(["doctor"], columns=80, bootstrap=penstock.bootstrap, status=1)
    assert any("asking for" in line for line in shown)
    assert run("doctor", bootstrap=penstock.bootstrap).err == ""


def test_hostile_names_are_harmless_in_the_report_and_in_its_commands(
    run: Run, penstock: Broker
) -> None:
    commit_as(HOSTILE, penstock)
    shown = run("doctor", bootstrap=penstock.bootstrap)
    assert all(line.isprintable() for line in shown.lines)
    assert "evil\\x1b[2J\\nforged" in shown.text
    assert ": penstock groups delete $'evil\\033[2J\\012forged " in shown.text
    told = json.loads(run("doctor --json").out)
    [found] = [one for one in told["checks"] if one["check"] == "empty-groups"]
    assert found["reason"] == f"{HOSTILE} has offsets and no members"
    assert found["faults"][0]["advice"].isprintable()


def test_a_pipe_gets_each_check_and_each_command_in_one_line(run: Run, penstock: Broker) -> None:
    penstock.topic(LONG, retention_ms=1)
    lines = run("doctor", bootstrap=penstock.bootstrap).lines
    assert f"  penstock topics alter {LONG} --set retention.ms=604800000" in lines
    rows = [line.split() for line in lines]
    statuses = {row[0]: row[1] for row in rows if len(row) > 2 and row[1] in WORDS}
    assert len(statuses) == 22
    counts = {word: list(statuses.values()).count(word) for word in WORDS}
    assert lines[-1] == ", ".join(f"{counts[word]} {word}" for word in WORDS)


WORDS = ("pass", "warn", "fail", "unknown")


def test_many_mends_are_cut_in_the_table_and_whole_in_json(run: Run, penstock: Broker) -> None:
    for number in range(7):
        penstock.topic(f"t{number}", retention_ms=1)
    shown = run("doctor", bootstrap=penstock.bootstrap)
    assert shown.text.count("--set retention.ms=") == 5
    assert "  and 2 others: --json tells all" in shown.lines
    assert run("doctor --json").text.count("--set retention.ms=") == 7


def test_commands_repeat_the_cluster_that_was_named(run: Run, penstock: Broker) -> None:
    for option in ("--bootstrap", "--bootstrap-server"):
        penstock.topic(retention_ms=1)
        told = json.loads(run(f"doctor --json {option} {penstock.bootstrap}").out)
        [found] = [one for one in told["checks"] if one["check"] == "retention"]
        [fault] = found["faults"]
        assert fault["command"].endswith(f" --bootstrap {penstock.bootstrap}")
        assert run(fault["command"].removeprefix("penstock ") + " --json").status == 0


def test_a_failure_is_in_the_exit_status(run: Run, penstock: Broker) -> None:
    told = run("doctor --json", bootstrap=penstock.bootstrap)
    assert (told.status, json.loads(told.out)["status"]) == (1, "fail")
    assert told.err == ""


def test_nobody_there_is_one_line(run: Run) -> None:
    nobody = HeldPort()
    outcome = run("doctor", bootstrap=nobody.address)
    assert (outcome.status, outcome.text) == (1, "")
    assert re.fullmatch(r"penstock: no broker can be reached: .*\n", outcome.err)


@pytest.fixture
def silent() -> Iterator[str]:
    """Somebody who takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        taken: list[socket.socket] = []

        def accept() -> None:
            while True:
                try:
                    taken.append(server.accept()[0])
                except OSError:
                    return

        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        yield f"127.0.0.1:{server.getsockname()[1]}"
        server.shutdown(socket.SHUT_RDWR)
        thread.join()
        for one in taken:
            one.close()


def test_a_broker_that_never_answers_is_one_line(run: Run, silent: str) -> None:
    outcome = run("doctor", bootstrap=silent)
    assert outcome.status == 1
    assert f"{silent}: no connection within 3000 ms" in outcome.err


def test_a_broker_that_cannot_be_reached_leaves_the_other_checks(run: Run, silent: str) -> None:
    listening = HeldPort()
    settings = {"advertised.listeners": f"PLAINTEXT://{silent}"}
    with running_broker(settings=settings, port=listening.number) as broker:
        assert broker.nodes
        outcome = run("doctor --json --timeout 8s", bootstrap=listening.address)
    found = {one["check"]: one for one in json.loads(outcome.out)["checks"]}
    assert found["disk"]["status"] == "unknown"
    assert found["lag"]["status"] == "unknown"
    assert "no connection within 3000 ms" in found["disk"]["reason"]
    assert found["offline"]["status"] == "pass"
    assert found["acls"]["status"] == "fail"


class ClockOfElsewhere:
    """Of a machine that is twenty seconds behind."""

    def __init__(self) -> None:
        self._here = RealClock()

    def now_ms(self) -> int:
        return self._here.now_ms() - 20_000

    def monotonic_ms(self) -> int:
        return self._here.monotonic_ms()

    def monotonic_us(self) -> int:
        return self._here.monotonic_us()


async def seen_from_elsewhere(bootstrap: str) -> ClusterSeen:
    addresses = parse_addresses(bootstrap)
    async with Cluster(TcpNetwork(), ClockOfElsewhere(), addresses, rules=RULES) as cluster:
        return await gather(cluster)


def test_a_controller_whose_clock_is_ahead_of_this_machine_fails(penstock: Broker) -> None:
    found = clock(asyncio.run(seen_from_elsewhere(penstock.bootstrap)), Limits())
    assert found.status is Status.FAIL
    assert re.fullmatch(r"controller 1 is (19|20)\.\d s ahead of this machine", found.reason)


def test_a_broker_tells_its_clock_by_its_metrics() -> None:
    metrics = HeldPort()
    with running_broker(settings={"penstock.metrics.address": metrics.address}) as broker:
        found = asyncio.run(seen_from_elsewhere(broker.bootstrap))
    [one] = found.clocks.values()
    assert isinstance(one, ClockSeen)
    assert abs(one.ahead_ms - 20_000) <= one.within_ms
