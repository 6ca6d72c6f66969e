"""What must be true of a cluster once its faults have ended: of all images, and of all records."""

from collections import Counter
from collections.abc import Iterable, Mapping, Set

from penstock.client.consume.group_offsets import Committed, committed_offsets
from penstock.client.consume.isolation import Isolation
from penstock.client.consume.offsets import When, list_offsets
from penstock.client.network.cluster import Cluster
from penstock.client.network.coordinators import Coordinators
from penstock.client.network.errors import ClientError
from penstock.metadata.image.image import Image
from penstock.model.configs import ResourceKind
from penstock.model.identity import NodeId, TopicPartition
from penstock.sim.cluster.history import ClusterHistory, TopicHistory
from penstock.sim.cluster.scenario import ORDERS, PAYMENTS
from penstock.sim.errors import Violation
from penstock.sim.reading import FinalLog, read_all


def judge_images(history: ClusterHistory, images: Mapping[str, Image]) -> None:
    for host, image in images.items():
        for topic in history.topics.values():
            _judge_topic(host, image, topic)
        for name, creators in history.creators.items():
            if name not in image.topics_by_name:
                raise Violation(
                    "lost operation", f"{name}, created for {creators[0]}, is not known to {host}"
                )


def _judge_topic(host: str, image: Image, topic: TopicHistory) -> None:
    found = image.topics_by_name.get(topic.name)
    if found is None:
        if topic.is_certain:
            raise Violation("lost operation", f"{topic.name} was created, and {host} lacks it")
        return
    if topic.must_be_gone:
        raise Violation("lost operation", f"{topic.name} was deleted, and {host} still has it")
    if topic.is_certain and topic.topic_id not in (None, found.topic_id):
        raise Violation("done twice", f"{topic.name} has another id than when it was created")
    counts = {len(partition.replicas) for partition in found.partitions}
    if counts != {topic.replicas}:
        raise Violation(
            "lost operation", f"{topic.name} has {sorted(counts)} replicas at {host}, not"
            f" {topic.replicas}",
        )  # fmt: skip
    if topic.is_another(found.topic_id):
        return  # which nobody has changed
    if len(found.partitions) not in topic.partition_counts:
        raise Violation(
            "lost operation", f"{topic.name} has {len(found.partitions)} partitions at {host},"
            f" not {topic.partition_counts}",
        )  # fmt: skip
    settings = image.config(ResourceKind.TOPIC, topic.name)
    for name in topic.settings:
        if settings.get(name) not in topic.values_of(name):
            raise Violation(
                "lost operation", f"{name} of {topic.name} is {settings.get(name)} at {host}, not"
                f" {sorted(topic.values_of(name))}",
            )  # fmt: skip


def missing_brokers(image: Image, hosts: Mapping[NodeId, str]) -> str | None:
    """Who is not there by this image, if anybody is not."""
    for node_id, host in hosts.items():
        broker = image.brokers.get(node_id)
        if broker is None or broker.fenced:
            return f"{host} is {'fenced' if broker else 'not registered'}"
    return None


def missing_service(
    images: Mapping[str, Image],
    logs: Mapping[str, frozenset[TopicPartition]],
    hosts: Mapping[NodeId, str],
) -> str | None:
    """What is not served: brokers that are fenced, images that lag, partitions without leader."""
    newest = max(image.offset for image in images.values())
    for host, image in images.items():
        if image.offset != newest:
            return f"the image of {host} is at offset {image.offset}, not {newest}"
        if (missing := missing_brokers(image, hosts)) is not None:
            return f"{missing}, by {host}"
        for topic in image.topics_by_name.values():
            for index, partition in enumerate(topic.partitions):
                place = TopicPartition(topic.name, index)
                if partition.leader is None:
                    return f"{place} has no leader, by {host}"
                if place not in logs[hosts[partition.leader]]:
                    return f"{place} is not open on its leader, {hosts[partition.leader]}"
    return None


def missing_replicas(images: Mapping[str, Image], history: ClusterHistory) -> str | None:
    """Who is not in sync, though everything works. A damaged leader cannot bring its followers in
    sync, as in Apache Kafka: they do not take what is damaged.
    """
    for host, image in images.items():
        for topic in image.topics_by_name.values():
            for index, partition in enumerate(topic.partitions):
                missing = sorted(set(partition.replicas) - set(partition.isr))
                if missing and TopicPartition(topic.name, index) not in history.damaged:
                    return f"replicas {missing} of {topic.name}-{index} are not in sync, by {host}"
    return None


async def judge_records(history: ClusterHistory, cluster: Cluster) -> None:
    """What was acked, or read, is at its offset, in every topic that is there for certain."""
    places = [
        place
        for place in sorted({*history.records, *history.unplaced} - history.may_have_lost)
        if place.topic == ORDERS
        or ((topic := history.topics.get(place.topic)) is not None and topic.is_certain)
    ]
    try:
        logs = await read_all(cluster, places, compacted=frozenset(), partition_bytes_max=1 << 20)
    except ClientError as error:
        raise Violation("readable", str(error)) from error
    for log in logs:
        judge_order(log, history.acked_offsets.get(log.partition, set()))
        if log.broken_at is not None and log.partition not in history.damaged:
            raise Violation("readable", f"{log.partition} is damaged at offset {log.broken_at}")
        judge_kept(log, history.records.get(log.partition, {}))
        judge_found(log, history.unplaced.get(log.partition, ()))


def judge_found(log: FinalLog, values: Iterable[bytes]) -> None:
    """What was acked without an offset is there once, somewhere."""
    if log.broken_at is not None:
        return  # another replica may have it
    found = Counter(record.value for record in log.records)
    for value in values:
        if found[value] != 1:
            raise Violation(
                "lost records", f"{log.partition} has {value!r} {found[value]} times, which was"
                " acked without an offset",
            )  # fmt: skip


def judge_kept(log: FinalLog, records: Mapping[int, bytes]) -> None:
    """What was acked, or read, is there as far as the log can be read: a log that is not broken has
    all of it, wherever it ends. Of one that is broken other replicas have the rest.
    """
    found = {int(record.offset): record.value for record in log.records}
    for offset, value in records.items():
        is_readable = log.broken_at is None or offset < log.broken_at
        if is_readable and found.get(offset) != value:
            raise Violation(
                "lost records", f"{log.partition} has {found.get(offset)!r} at {offset}, where"
                f" {value!r} was acked or read, and ends at {log.end_offset}",
            )  # fmt: skip


def judge_order(log: FinalLog, acked: Set[int]) -> None:
    """A record is there once, however often it was sent again, and those of one writer that were
    acked are in the order in which it sent them. What a writer has given up may come late.
    """
    offsets: dict[bytes, int] = {}
    latest: dict[bytes, int] = {}  # by writer
    for record in log.records:
        value = bytes(record.value or b"")
        offset = offsets.setdefault(value, record.offset)
        if offset != record.offset:
            raise Violation(
                "duplicates", f"{log.partition} has {value!r} at {offset} and at {record.offset}"
            )
        if int(record.offset) in acked:
            number, _, writer = value.partition(b" of ")
            if int(number) < latest.get(writer, 0):
                raise Violation(
                    "order", f"{log.partition} has {value!r} after number {latest[writer]}"
                )
            latest[writer] = int(number)


async def open_transactions(cluster: Cluster, partitions: int) -> str | None:
    """Partitions whose readers of committed records wait for the end of a transaction."""
    latest = {TopicPartition(PAYMENTS, index): When.LATEST for index in range(partitions)}
    try:
        ends = await list_offsets(cluster, latest)
        stable = await list_offsets(cluster, latest, isolation=Isolation.READ_COMMITTED)
    except ClientError as error:
        return str(error)
    waiting = [str(place) for place in latest if ends[place] != stable[place]]
    return f"transactions are open in {waiting}" if waiting else None


async def judge_transactions(history: ClusterHistory, cluster: Cluster, partitions: int) -> None:
    """All records of a transaction count, or none; each of them once."""
    places = [TopicPartition(PAYMENTS, index) for index in range(partitions)]
    try:
        logs = await read_all(
            cluster,
            places,
            compacted=frozenset(),
            partition_bytes_max=1 << 20,
            isolation=Isolation.READ_COMMITTED,
        )
    except ClientError as error:
        raise Violation("readable", str(error)) from error
    seen: dict[str, set[bytes]] = {}
    for log in logs:
        for record in log.records:
            value = bytes(record.value or b"")
            of_one = seen.setdefault(value.decode().rpartition("/")[0], set())
            if value in of_one:
                raise Violation("transactions", f"{value!r} is there twice")
            of_one.add(value)
    for name, transaction in history.transactions.items():
        transaction.check(frozenset(seen.get(name, ())))


async def judge_commits(history: ClusterHistory, cluster: Cluster) -> None:
    place = TopicPartition(ORDERS, 0)
    for group in history.commits:
        try:
            found = (await committed_offsets(Coordinators(cluster), group, [place])).get(place)
        except ClientError as error:
            raise Violation("readable", f"offsets of {group}: {error}") from error
        offset = found.offset if isinstance(found, Committed) else found
        possible = history.offsets_of(group)
        if offset not in possible and (offset is not None or any(history.commits[group].values())):
            raise Violation("commits", f"{group} has committed {offset}, not {sorted(possible)}")
