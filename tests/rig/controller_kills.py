"""The active controller is killed, again and again, while topics are created and configured.

Whatever was acknowledged is there at the end on every node, once. A test has a few rounds;
`bench/controller_kills.py` has many, beside Apache Kafka.
"""

import os
import signal
import time
from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass, field
from itertools import count

from penstock.model.error import ErrorCode
from rig.admin_load import AdminLoad
from rig.cluster_questions import (
    PATIENCE_SECONDS,
    ClusterOfProcesses,
    active_controller,
    create_topic,
    is_whole,
    topics_at,
    until,
)
from rig.dialogue import Dialogue
from rig.topic_ledger import LedgerEntry, differences

RETRY_SECONDS = 0.005
TIMEOUT_MS = 10_000
OPEN_CODES = frozenset({ErrorCode.NOT_CONTROLLER, ErrorCode.REQUEST_TIMED_OUT})


@dataclass(slots=True, kw_only=True)
class KillsReport:
    """How far it has come, and at the end what is wrong. Seconds are from the kill to the first
    acknowledged creation of a topic that was asked for after it.
    """

    kills: int = 0
    direct_seconds: list[float] = field(default_factory=list)  # by a connection that was open
    client_seconds: list[float] = field(default_factory=list)  # by an AdminClient
    back_seconds: list[float] = field(default_factory=list)  # from the start until unfenced
    acked: int = 0
    open: int = 0
    repeated: list[str] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)


class ControllerKills:
    """Of one cluster, which runs: `kill_once` as often as wanted, then `finish`. Topics are created
    and configured while `kill_once` runs, and else not, so that other clusters can have their turn.
    """

    def __init__(self, cluster: ClusterOfProcesses) -> None:
        self.report = KillsReport()
        self._cluster = cluster
        self._entries: list[LedgerEntry] = []
        until("the cluster is whole", lambda: is_whole(cluster))
        self._load = AdminLoad(cluster.bootstrap)

    def kill_once(self) -> None:
        """The cluster is whole again when it returns."""
        cluster, load, report = self._cluster, self._load, self.report
        with load.running():
            load.first_after(time.monotonic())
            active = active_controller(cluster.addresses.values())
            survivors = [one for one in cluster.nodes if one != active]
            through = cluster.addresses[survivors[report.kills % len(survivors)]]
            with closing(Dialogue(through, "")) as dialogue:
                killed_at = time.monotonic()
                os.kill(cluster.nodes[active].pid, signal.SIGKILL)
                self._create_until_acked(dialogue, f"probe-{report.kills}")
                report.direct_seconds.append(time.monotonic() - killed_at)
            report.client_seconds.append(load.first_after(killed_at).ended - killed_at)
            cluster.nodes[active].until_ended()
            started_at = time.monotonic()
            cluster.start(active)
            until(f"node {active} is back", lambda: is_whole(cluster))
            report.back_seconds.append(time.monotonic() - started_at)
        report.kills += 1
        report.acked, report.open = load.acked + report.kills, load.open

    def finish(self) -> KillsReport:
        """Compares what the nodes show with what was acknowledged."""
        load, report = self._load, self.report
        load.finish()
        report.acked, report.open = load.acked + report.kills, load.open
        report.repeated += load.repeated
        report.faults += load.unexpected
        report.faults += lasting_differences(self._cluster, [*self._entries, *load.entries])
        return report

    def _create_until_acked(self, dialogue: Dialogue, prefix: str) -> None:
        """Each attempt has a name of its own: the outcome of the ones before may be open."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        for attempt in count():
            entry = LedgerEntry(name=f"{prefix}-{attempt}")
            self._entries.append(entry)
            code, topic_id = create_topic(dialogue, entry.name, timeout_ms=TIMEOUT_MS)
            if code == ErrorCode.NONE:
                entry.is_acked, entry.topic_id = True, topic_id
                return
            if code == ErrorCode.TOPIC_ALREADY_EXISTS:
                entry.is_acked = True
                self.report.repeated.append(f"create {entry.name}")
            elif code not in OPEN_CODES:
                self.report.faults.append(f"create {entry.name}: error {code}")
            assert time.monotonic() < deadline, f"{prefix}: no topic was created"
            time.sleep(RETRY_SECONDS)


def lasting_differences(cluster: ClusterOfProcesses, entries: Iterable[LedgerEntry]) -> list[str]:
    """What is wrong on any node, once each has had the time to learn of all changes. Where an
    outcome is open, all nodes must still show the same.
    """
    known = list(entries)
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        shown = {number: topics_at(address) for number, address in cluster.addresses.items()}
        faults = [
            fault
            for number, found in shown.items()
            for fault in differences(known, found, where=f"node {number}")
        ]
        first, *others = shown.values()
        if any(other != first for other in others):
            faults.append("the nodes do not show the same")
        if not faults or time.monotonic() > deadline:
            return faults
        time.sleep(0.1)
