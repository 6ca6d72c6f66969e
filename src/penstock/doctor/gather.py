"""Asks a cluster for all that the checks judge: by the public protocol, and by the metrics of nodes
that have them for what the protocol does not tell.

Each question has a time of its own, and all of them together have one: what is not answered by then
is Unseen, with the reason, and the other questions are asked all the same. Only a cluster that no
broker of can be reached is an error.
"""

import asyncio
from collections.abc import Container, Iterable, Mapping
from dataclasses import replace

from penstock.client.admin.acls import describe_acls
from penstock.client.admin.admin import Admin, LogDirectory
from penstock.client.admin.configs import Resource, describe_configs
from penstock.client.admin.hanging_transactions import Suspect, suspects
from penstock.client.admin.last_batches import LogRange, StoredBatch, last_batches, ranges
from penstock.client.admin.quorum import describe_quorum
from penstock.client.admin.transaction_listing import (
    OPEN_STATES,
    TransactionDescription,
    Wanted,
    describe_transactions,
    list_transactions,
)
from penstock.client.consume.offsets import When, list_offsets
from penstock.client.network.cluster import Cluster, ClusterRules
from penstock.client.network.coordinators import CoordinatorKind, Coordinators
from penstock.client.network.errors import ClientError, Refused
from penstock.client.network.routing import ClusterView
from penstock.doctor.gather_groups import groups_seen
from penstock.doctor.gather_metrics import (
    MetricsPage,
    asks_again,
    clock_seen,
    descriptors_seen,
    early_acks_seen,
    metrics_address,
    metrics_page,
)
from penstock.doctor.questions import QUESTION_MS_MAX, Progress, Questions, one_line
from penstock.doctor.seen import (
    LAG_MS_MAX,
    AclsSeen,
    ClockSeen,
    ClusterSeen,
    Seen,
    Settings,
    Unseen,
)
from penstock.model.configs import ResourceKind
from penstock.model.error import ErrorCode
from penstock.model.identity import NodeId, TopicPartition
from penstock.model.offset import Offset
from penstock.model.settings.listener import SecurityProtocol
from penstock.model.topic_name import is_of_the_system
from penstock.security.acl.filter import AclFilter

# A broker that is down costs a question, and not the whole examination.
RULES = ClusterRules(client_id="penstock-doctor", connect_ms_max=3_000, request_ms_max=10_000)
TIMEOUT_MS_DEFAULT = 60_000
PARTITIONS_SAMPLED = 200
TOPICS_AT_ONCE = 200
ACKS_WATCHED_MS = 3_000  # producers that write in a steady flow are seen by then


async def gather(
    cluster: Cluster,
    *,
    lag_ms_max: int = LAG_MS_MAX,
    timeout_ms: int = TIMEOUT_MS_DEFAULT,
    progress: Progress = lambda what: None,
) -> ClusterSeen:
    """ClientError when no broker tells the metadata. The age of unread records is looked up where a
    group is further behind than `lag_ms_max`.
    """
    progress("metadata")
    view = await cluster.refresh_all()
    ask = Questions(cluster, timeout_ms=timeout_ms, progress=progress)
    away = await _unreached(cluster, view, progress)
    down = await ask.about("registered brokers", _down(cluster, view))
    logs = await ask.about("offsets", _logs(cluster, view, away))
    batches: Seen[dict[TopicPartition, tuple[StoredBatch, ...]]]
    batches = logs if isinstance(logs, Unseen) else await _batches(ask, cluster, view, logs)
    # Groups and transactions are known to the brokers that look after them: all must be asked.
    missing = next(iter(away.values()), None)
    security = cluster.rules.security
    broker_settings = {
        node: await ask.about(
            f"settings of broker {node}", _broker_settings(cluster, node), away.get(node)
        )
        for node in view.brokers
    }
    looked_ms = cluster.clock.monotonic_ms()
    metrics = await _metrics(ask, cluster, view, broker_settings)
    seen = ClusterSeen(
        at_ms=cluster.clock.now_ms(),
        protocol=SecurityProtocol.PLAINTEXT if security is None else security.protocol,
        brokers=view.brokers,
        topics=view.topics,
        down=tuple(sorted({*away, *(_holding(view) if isinstance(down, Unseen) else down)})),
        topic_settings=await ask.about("settings of topics", _topic_settings(cluster, view)),
        broker_settings=broker_settings,
        directories={
            node: await ask.about(
                f"disks of broker {node}", _directories(cluster, node), away.get(node)
            )
            for node in view.brokers
        },
        descriptors={node: descriptors_seen(page) for node, page in metrics.items()},
        logs=logs,
        batches=batches,
        acls=await ask.about("ACLs", _acls(cluster)),
        transactions=await ask.about("transactions", _transactions(cluster), missing),
        hanging=await ask.about("producers", _hanging(cluster, view), missing),
        clock=await ask.about("the controller's clock", _clock(cluster)),
        clocks={node: clock_seen(page, node) for node, page in metrics.items()},
    )
    later = metrics
    if asks_again(metrics.values(), batches):
        left_ms = looked_ms + ACKS_WATCHED_MS - cluster.clock.monotonic_ms()
        progress("acks of producers, some seconds later")
        await asyncio.sleep(max(0, min(left_ms, ask.left_ms)) / 1000)
        looked_again_ms = cluster.clock.monotonic_ms()
        later = await _metrics(ask, cluster, view, broker_settings)
        seen = replace(seen, acks_watched_ms=looked_again_ms - looked_ms)
    return replace(
        seen,
        early_acks={node: early_acks_seen(page, later[node]) for node, page in metrics.items()},
        # Last, since there may be many: what they leave of the time is nobody's.
        groups=missing or await groups_seen(ask, cluster, logs, lag_ms_max=lag_ms_max),
    )


async def _unreached(
    cluster: Cluster, view: ClusterView, progress: Progress
) -> dict[NodeId, Unseen]:
    """Brokers that take no connection, all tried at once, so that no question waits for them."""
    progress("connections")
    nodes = sorted(view.brokers)
    tried = await asyncio.gather(*map(cluster.channel, nodes), return_exceptions=True)
    found = {}
    for node, outcome in zip(nodes, tried, strict=True):
        if isinstance(outcome, ClientError):
            found[node] = Unseen(reason=f"broker {node}: {one_line(outcome)}")
        elif isinstance(outcome, BaseException):
            raise outcome
    return found


async def _down(cluster: Cluster, view: ClusterView) -> tuple[NodeId, ...]:
    described = await Admin(cluster).describe_cluster()
    fenced = {broker.node_id for broker in described.brokers if broker.fenced}
    return tuple(sorted({*fenced, *_holding(view)}))


def _holding(view: ClusterView) -> tuple[NodeId, ...]:
    """Nodes that hold replicas and are no brokers at present."""
    return tuple(
        sorted(
            {
                node
                for topic in view.topics.values()
                for one in topic.partitions
                for node in one.replicas
                if node not in view.brokers
            }
        )
    )


async def _logs(
    cluster: Cluster, view: ClusterView, away: Container[NodeId]
) -> dict[TopicPartition, LogRange]:
    places = [
        place
        for place in _led(view)
        if (leader := view.leader_of(place)) is not None and leader not in away
    ]
    starts = await _offsets(cluster, places, When.EARLIEST)
    return ranges(starts, await _offsets(cluster, places, When.LATEST))


def _led(view: ClusterView) -> list[TopicPartition]:
    return [
        place
        for name, topic in sorted(view.topics.items())
        for one in topic.partitions
        if view.leader_of(place := TopicPartition(name, one.index)) is not None
    ]


async def _offsets(
    cluster: Cluster, places: list[TopicPartition], when: When
) -> dict[TopicPartition, Offset]:
    wanted = dict.fromkeys(places, when)
    listed = await list_offsets(cluster, wanted, timeout_ms=QUESTION_MS_MAX // 3)
    return {
        place: one.offset
        for place, one in listed.items()
        if not isinstance(one, Refused) and one.offset is not None
    }


async def _batches(
    ask: Questions, cluster: Cluster, view: ClusterView, logs: dict[TopicPartition, LogRange]
) -> Seen[dict[TopicPartition, tuple[StoredBatch, ...]]]:
    """Of the first partitions of all topics, and then the next ones, until there are enough."""
    found: dict[TopicPartition, tuple[StoredBatch, ...]] = {}

    async def read() -> None:
        refused: Refused | None = None
        for place in _sampled(view, logs):
            try:
                found[place] = await last_batches(cluster, place, logs[place])
            except Refused as error:
                refused = error  # deleted, or moved, or not for us: others may be read
        if refused is not None and not found:
            raise refused

    unseen = await ask.about("last batches", read())
    # What was read before time was up is a sample too.
    return unseen if isinstance(unseen, Unseen) and not found else found


def _sampled(view: ClusterView, logs: dict[TopicPartition, LogRange]) -> Iterable[TopicPartition]:
    places = [
        place
        for place, log in logs.items()
        if log.count and not view.topics[place.topic].internal and not is_of_the_system(place.topic)
    ]
    return sorted(places, key=lambda place: (place.partition, place.topic))[:PARTITIONS_SAMPLED]


async def _topic_settings(cluster: Cluster, view: ClusterView) -> dict[str, Settings]:
    names = sorted(view.topics)
    found: dict[str, Settings] = {}
    for start in range(0, len(names), TOPICS_AT_ONCE):
        part = [
            Resource(ResourceKind.TOPIC, name) for name in names[start : start + TOPICS_AT_ONCE]
        ]
        for resource, entries in (await describe_configs(cluster, part)).items():
            if not isinstance(entries, Refused):
                found[resource.name] = {entry.name: entry.value for entry in entries}
            elif entries.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:  # deleted meanwhile
                raise entries
    return found


async def _broker_settings(cluster: Cluster, node: NodeId) -> Settings:
    resource = Resource(ResourceKind.BROKER, str(node))
    entries = (await describe_configs(cluster, [resource]))[resource]
    if isinstance(entries, Refused):
        raise entries
    return {entry.name: entry.value for entry in entries}


async def _directories(cluster: Cluster, node: NodeId) -> tuple[LogDirectory, ...]:
    found = (await Admin(cluster).log_directories([node]))[node]
    if isinstance(found, Refused):
        raise found
    return tuple(found)


async def _metrics(
    ask: Questions,
    cluster: Cluster,
    view: ClusterView,
    settings: Mapping[NodeId, Seen[Settings]],
) -> dict[NodeId, Seen[MetricsPage]]:
    found: dict[NodeId, Seen[MetricsPage]] = {}
    for node, broker in view.brokers.items():
        address = metrics_address(broker, settings[node])
        if isinstance(address, Unseen):
            found[node] = address
        else:
            page = metrics_page(address, node, cluster.clock, cluster_id=view.cluster_id)
            found[node] = await ask.about(f"metrics of broker {node}", page)
    return found


async def _acls(cluster: Cluster) -> AclsSeen:
    try:
        return AclsSeen(is_enabled=True, entries=tuple(await describe_acls(cluster, AclFilter())))
    except Refused as error:
        if error.code != ErrorCode.SECURITY_DISABLED:
            raise
        return AclsSeen(is_enabled=False)


async def _transactions(cluster: Cluster) -> tuple[TransactionDescription, ...]:
    listed = await list_transactions(cluster, Wanted(states=OPEN_STATES))
    coordinators = Coordinators(cluster, kind=CoordinatorKind.TRANSACTION)
    names = [one.transactional_id for one in listed]
    described = await describe_transactions(coordinators, names)
    return tuple(one for one in described.values() if isinstance(one, TransactionDescription))


async def _hanging(cluster: Cluster, view: ClusterView) -> tuple[Suspect, ...]:
    coordinators = Coordinators(cluster, kind=CoordinatorKind.TRANSACTION)
    found = await suspects(cluster, coordinators, _led(view))
    return tuple(one for one in found if one.hangs)


async def _clock(cluster: Cluster) -> ClockSeen:
    """The leader of the quorum tells the time of its own last fetch as now, by its clock."""
    await describe_quorum(cluster)  # the one that counts finds its connections open
    before_ms, began_ms = cluster.clock.now_ms(), cluster.clock.monotonic_ms()
    quorum = await describe_quorum(cluster)
    took_ms = cluster.clock.monotonic_ms() - began_ms
    for member in quorum.voters:
        told_ms = member.fetched_ms if member.fetched_ms is not None else member.caught_up_ms
        if member.node_id == quorum.leader_id and told_ms is not None:
            ahead_ms = told_ms - before_ms - took_ms // 2
            return ClockSeen(
                node_id=quorum.leader_id, ahead_ms=ahead_ms, within_ms=took_ms // 2 + 1
            )
    raise ClientError("the active controller does not tell its time")
