"""How long partitions cannot be written when their leader is killed, or stops cleanly."""

import os
import signal
import time
from collections.abc import Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass, field

from penstock.model.error import ErrorCode
from penstock.wire.messages.elect_leaders import ElectLeadersRequest
from rig.cluster_questions import active_controller, until
from rig.dialogue import Dialogue
from rig.failover.cluster import ReplicatedCluster
from rig.failover.program_writers import ProgramWriter
from rig.failover.questions import create_replicated, partition_states, until_in_sync
from rig.failover.writers import (
    ConfluentWriter,
    DirectWriter,
    KafkaPythonWriter,
    PenstockWriter,
    Writer,
)

TOPIC = "failover"
PARTITIONS = 3
SETTLED_RECORDS = 20  # that each writer has written before anything is done
AFTERWARDS_SECONDS = 1.0  # how long writers go on when a node has stopped
PREFERRED = 0


@dataclass(slots=True, kw_only=True)
class FailoverReport:
    """Seconds. Those of kills are from the kill to the next acked record, by client; those of
    stops the longest that a record took, from the signal until a second after the node's end.
    """

    kills: int = 0
    controllers_killed: int = 0
    kill_seconds: dict[str, list[float]] = field(default_factory=dict)
    stops: int = 0
    controllers_stopped: int = 0
    stop_seconds: dict[str, list[float]] = field(default_factory=dict)
    stopped_after: list[float] = field(default_factory=list)  # from the signal to the node's end
    failures: list[str] = field(default_factory=list)  # records that a client gave up


class FailoverTimes:
    """Of one cluster, which runs. Nothing is written between two rounds. `programs` are clients of
    other languages, by name, with their commands: see `program_writers.py`.
    """

    def __init__(
        self, cluster: ReplicatedCluster, programs: Mapping[str, list[str]] | None = None
    ) -> None:
        self.report = FailoverReport()
        self._cluster = cluster
        self._programs = programs or {}
        create_replicated(cluster, TOPIC, partitions=PARTITIONS)

    def kill_once(self, *, controller: bool) -> None:
        """Kills a leader, which is the active controller or is not. The cluster is whole again
        when it returns.
        """
        node, partition = self._settled(controller)
        cluster, report = self._cluster, self.report
        direct, *clients = self._writers(node, partition)
        with ExitStack() as opened:
            self._start(opened, direct, *clients)
            killed_at = time.monotonic()
            os.kill(cluster.nodes[node].pid, signal.SIGKILL)
            acked = direct.first(lambda one: one.ended > killed_at and one.node != node)
            self._note(report.kill_seconds, direct, acked.ended - killed_at)
            for client in clients:
                acked = client.first(lambda one: one.begun > killed_at)
                self._note(report.kill_seconds, client, acked.ended - killed_at)
        report.kills += 1
        report.controllers_killed += controller
        cluster.nodes[node].until_ended()
        cluster.start(node)
        until_in_sync(cluster, TOPIC)

    def stop_once(self, *, controller: bool) -> None:
        """Stops a leader cleanly. The cluster is whole again when it returns."""
        node, partition = self._settled(controller)
        cluster, report = self._cluster, self.report
        writers = self._writers(node, partition)
        with ExitStack() as opened:
            self._start(opened, *writers)
            stopped_at = time.monotonic()
            cluster.nodes[node].end(signal.SIGTERM)
            ended_at = time.monotonic()
            for writer in writers:
                since = ended_at + AFTERWARDS_SECONDS
                writer.first(lambda one, since=since: one.ended > since)  # type: ignore[misc]
        for writer in writers:
            self._note(report.stop_seconds, writer, writer.longest_seconds(since=stopped_at))
        report.stopped_after.append(ended_at - stopped_at)
        report.stops += 1
        report.controllers_stopped += controller
        cluster.start(node)
        until_in_sync(cluster, TOPIC)

    def _settled(self, controller: bool) -> tuple[int, int]:
        """The node that shall go, and a partition that it leads, when all lead what they should."""
        cluster = self._cluster
        until_in_sync(cluster, TOPIC)
        elect_preferred(cluster)
        active = active_controller(cluster.addresses.values())
        states = partition_states(cluster.addresses[active], TOPIC)
        number = self.report.kills + self.report.stops
        candidates = [
            (state.leader, index)
            for index, state in states.items()
            if state.leader is not None and (state.leader == active) == controller
        ]
        assert candidates, f"no partition is led as wanted: {states}, controller {active}"
        return candidates[number % len(candidates)]

    def _writers(self, node: int, partition: int) -> list[Writer]:
        cluster = self._cluster
        return [
            DirectWriter(cluster.addresses, TOPIC, partition, leader=node),
            PenstockWriter(cluster.bootstrap, TOPIC, partition),
            *(
                ProgramWriter(name, command, cluster.bootstrap, TOPIC, partition)
                for name, command in self._programs.items()
            ),
            ConfluentWriter(cluster.bootstrap, TOPIC, partition),
            KafkaPythonWriter(cluster.bootstrap, TOPIC, partition),
        ]

    def _start(self, opened: ExitStack, *writers: Writer) -> None:
        for writer in writers:
            opened.enter_context(writer.running())
        for writer in writers:
            writer.first(lambda _, writer=writer: len(writer.written) >= SETTLED_RECORDS)  # type: ignore[misc]

    def _note(self, seconds: dict[str, list[float]], writer: Writer, value: float) -> None:
        seconds.setdefault(writer.name, []).append(value)
        self.report.failures += writer.failures


def elect_preferred(cluster: ReplicatedCluster) -> None:
    """Every partition is led by its first replica, and each node leads some."""

    def are_elected() -> bool:
        request = ElectLeadersRequest(
            election_type=PREFERRED, topic_partitions=None, timeout_ms=10_000
        )
        with closing(Dialogue(next(iter(cluster.addresses.values())), "")) as dialogue:
            reply = dialogue.exchange(request, version=2)
        assert reply.error_code in (
            ErrorCode.NONE,
            ErrorCode.NOT_CONTROLLER,
            ErrorCode.REQUEST_TIMED_OUT,
        ), reply.error_code
        shown = [partition_states(address, TOPIC) for address in cluster.addresses.values()]
        leaders = {state.leader for state in shown[0].values()}
        return all(one == shown[0] for one in shown) and leaders == set(cluster.nodes)

    until("preferred leaders", are_elected)
