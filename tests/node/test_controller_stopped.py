"""An active controller whose process stands still is replaced, and steps down when it goes on.

What was sent to it meanwhile is refused, or done by the new controller; nothing that was
acknowledged by either of them is lost. Three nodes as processes, with short times.
"""

import re
import signal
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import psutil
import pytest

from penstock.model.configs import Operation, ResourceKind
from penstock.model.error import ErrorCode
from penstock.model.identity import METADATA_TOPIC, NodeId
from penstock.model.offset import LeaderEpoch, Offset
from penstock.raft import messages as raft
from penstock.raft.log_ends import LogEnd
from penstock.raft.voters import ReplicaKey
from penstock.raft.wire_form import fetch, vote
from penstock.wire.definition import Message
from penstock.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from penstock.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from penstock.wire.messages.metadata import MetadataRequest
from rig.cluster_questions import (
    SETTING,
    active_controller,
    create_topic,
    is_whole,
    quorum_of,
    unfenced_brokers,
    until,
)
from rig.controller_kills import lasting_differences
from rig.dialogue import Dialogue
from rig.served_cluster import ServedCluster
from rig.topic_ledger import LedgerEntry

TIMES = {
    "controller_quorum_fetch_timeout_ms": "1000",
    "controller_quorum_election_timeout_ms": "500",
    "controller_quorum_request_timeout_ms": "1000",
    "broker_session_timeout_ms": "3000",
    "broker_heartbeat_interval_ms": "500",
}
TIMEOUT_MS = 60_000
REFUSALS = frozenset({ErrorCode.NOT_CONTROLLER, ErrorCode.REQUEST_TIMED_OUT})
ROLE = r"quorum role=(\w+) epoch="
BYTES_MAX = 1024 * 1024
NOT_LEADING = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.BROKER_NOT_AVAILABLE,
    }
)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[ServedCluster]:
    with ServedCluster(tmp_path, **TIMES) as served:
        served.start()
        until("the cluster is whole", lambda: is_whole(served))
        yield served


@contextmanager
def stopped(pid: int) -> Iterator[None]:
    process = psutil.Process(pid)
    process.send_signal(signal.SIGSTOP)
    try:
        until("the process stands still", lambda: process.status() == psutil.STATUS_STOPPED)
        yield
    finally:
        process.send_signal(signal.SIGCONT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """A request whose reply is not there yet, on a connection of its own."""

    dialogue: Dialogue
    request: Message
    version: int

    def reply(self) -> Any:
        return self.dialogue.reply_to(self.request, version=self.version)


class Mailbox:
    """Connections that were opened to a node while it ran."""

    def __init__(self, opened: ExitStack, address: str, count: int) -> None:
        self._free = [opened.enter_context(closing(Dialogue(address, ""))) for _ in range(count)]

    def send(self, request: Message, *, version: int) -> Sent:
        dialogue = self._free.pop()
        dialogue.send(request, version=version)
        return Sent(dialogue=dialogue, request=request, version=version)


def creation_of(name: str) -> CreateTopicsRequest:
    topic = CreatableTopic(name=name, num_partitions=1, replication_factor=1)
    return CreateTopicsRequest(topics=[topic], timeout_ms=TIMEOUT_MS)


def change_of(name: str, value: int) -> IncrementalAlterConfigsRequest:
    config = AlterableConfig(name=SETTING, config_operation=Operation.SET, value=str(value))
    resource = AlterConfigsResource(
        resource_type=ResourceKind.TOPIC, resource_name=name, configs=[config]
    )
    return IncrementalAlterConfigsRequest(resources=[resource])


def created(cluster: ServedCluster, prefix: str, *, through: int) -> list[LedgerEntry]:
    """Of these the last one is acknowledged. On a busy machine there may be an election at any
    time, which leaves the outcome of an attempt open.
    """
    entries: list[LedgerEntry] = []
    with closing(Dialogue(cluster.addresses[through], "")) as dialogue:
        while True:
            name = f"{prefix}-{len(entries)}"
            code, topic_id = create_topic(dialogue, name, timeout_ms=TIMEOUT_MS)
            if code == ErrorCode.NONE:
                return [*entries, LedgerEntry(name=name, is_acked=True, topic_id=topic_id)]
            assert code in REFUSALS
            entries.append(LedgerEntry(name=name))


def set_value(cluster: ServedCluster, entry: LedgerEntry, first: int, *, through: int) -> None:
    """To the first value from this one on that is acknowledged."""
    with closing(Dialogue(cluster.addresses[through], "")) as dialogue:
        for value in count(first):
            [answer] = dialogue.exchange(change_of(entry.name, value), version=1).responses
            if answer.error_code == ErrorCode.NONE:
                entry.value = value
                return entry.open_values.clear()
            assert answer.error_code in REFUSALS
            entry.open_values.add(value)
    raise AssertionError("unreachable")


def entry_of_late(sent: Sent) -> LedgerEntry:
    """Of a creation that was sent to the stopped node: refused, or done."""
    [answer] = sent.reply().topics
    entry = LedgerEntry(name=answer.name)
    if answer.error_code == ErrorCode.NONE:
        entry.is_acked, entry.topic_id = True, bytes(answer.topic_id)
    else:
        assert answer.error_code in REFUSALS, answer
    return entry


def note_late_change(sent: Sent, entry: LedgerEntry, value: int) -> None:
    [answer] = sent.reply().responses
    if answer.error_code == ErrorCode.NONE:
        entry.value = value
    else:
        assert answer.error_code in REFUSALS, answer
        entry.open_values.add(value)


def key_of(cluster: ServedCluster, number: int) -> ReplicaKey:
    described = quorum_of(cluster.addresses[number])
    assert described is not None
    [directory] = [
        voter.replica_directory_id
        for voter in described.current_voters
        if voter.replica_id == number
    ]
    return ReplicaKey(NodeId(number), bytes(directory))


def cluster_id_of(cluster: ServedCluster) -> str:
    with closing(Dialogue(cluster.addresses[1], "")) as dialogue:
        return str(dialogue.exchange(MetadataRequest(topics=[]), version=12).cluster_id)


def test_what_a_stopped_controller_was_asked_is_refused_or_done_by_the_next_one(
    cluster: ServedCluster,
) -> None:
    def known_to(*numbers: int) -> set[int]:
        return set().union(*(unfenced_brokers(cluster.addresses[number]) for number in numbers))

    old = active_controller(cluster.addresses.values())
    through, other = (number for number in cluster.nodes if number != old)
    *others, before = created(cluster, "before", through=old)
    set_value(cluster, before, 1_000, through=old)
    roles_before = re.findall(ROLE, cluster.nodes[old].logged())
    assert roles_before[-1] == "leader"
    with ExitStack() as opened:
        clients = Mailbox(opened, cluster.addresses[old], 3)
        controllers = Mailbox(opened, cluster.controllers[old - 1], 2)
        with stopped(cluster.nodes[old].pid):
            by_broker = clients.send(creation_of("by-broker"), version=7)
            changed = clients.send(change_of(before.name, 3_000), version=1)
            asked = clients.send(MetadataRequest(topics=None), version=12)
            by_controller = controllers.send(creation_of("by-controller"), version=7)
            changed_there = controllers.send(change_of(before.name, 3_001), version=1)
            until(
                "another controller is active",
                lambda: active_controller([cluster.addresses[through]]) != old,
            )
            more = created(cluster, "meanwhile", through=other)
            set_value(cluster, more[-1], 2_000, through=through)
            set_value(cluster, before, 2_000, through=other)
            until("the stopped broker is fenced", lambda: old not in known_to(through, other))
        late = [entry_of_late(by_broker), entry_of_late(by_controller)]
        note_late_change(changed, before, 3_000)
        note_late_change(changed_there, before, 3_001)
        assert not late[1].is_acked, "the listener of controllers forwards nothing"
        assert before.name in {topic.name for topic in asked.reply().topics}
    until("the stopped broker is unfenced", lambda: is_whole(cluster))
    roles_since = re.findall(ROLE, cluster.nodes[old].logged())[len(roles_before) :]
    assert roles_since[0] == "resigned"
    assert lasting_differences(cluster, [*others, before, *more, *late]) == []


def test_a_stopped_controller_gives_no_vote_and_no_records_of_its_epoch_when_it_goes_on(
    cluster: ServedCluster,
) -> None:
    old = active_controller(cluster.addresses.values())
    voter = next(number for number in cluster.nodes if number != old)
    described = quorum_of(cluster.addresses[old])
    assert described is not None
    epoch = LeaderEpoch(described.leader_epoch)
    log_end = LogEnd(epoch, Offset(described.high_watermark))
    cluster_id, key = cluster_id_of(cluster), key_of(cluster, voter)
    asked_for_records = fetch.request_to_wire(
        raft.FetchRequest(
            epoch=epoch, replica=key, log_end=log_end, high_watermark=None, wait_ms_max=0
        ),
        cluster_id=cluster_id,
        bytes_max=BYTES_MAX,
    )
    with ExitStack() as opened:
        controllers = Mailbox(opened, cluster.controllers[old - 1], 3)
        with stopped(cluster.nodes[old].pid):
            fetched = controllers.send(asked_for_records, version=17)
            votes = [
                controllers.send(
                    vote.request_to_wire(
                        raft.VoteRequest(
                            epoch=epoch,
                            candidate=key,
                            voter=ReplicaKey(NodeId(old), None),
                            log_end=LogEnd(LeaderEpoch(epoch - 1), log_end.offset),
                            pre_vote=pre_vote,
                        ),
                        cluster_id=cluster_id,
                    ),
                    version=2,
                )
                for pre_vote in (True, False)
            ]
            # By then its own time is over, too: it has to have been fetched from all the while.
            until(
                "the stopped broker is fenced",
                lambda: old not in unfenced_brokers(cluster.addresses[voter]),
            )
        [topic] = fetched.reply().responses
        assert ErrorCode(topic.partitions[0].error_code) in NOT_LEADING
        assert not topic.partitions[0].records
        for sent in votes:
            [answer] = sent.reply().topics
            assert answer.topic_name == METADATA_TOPIC
            assert not answer.partitions[0].vote_granted
    until("the cluster is whole", lambda: is_whole(cluster))
