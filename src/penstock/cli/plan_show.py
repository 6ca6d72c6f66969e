"""Plans as tables, with what each figure is made of, and as JSON."""

from collections.abc import Sequence

from penstock.cli.plan_measure import Measured
from penstock.cli.show import print_json, print_table, say
from penstock.cli.times import duration_text
from penstock.planning.cluster import ClusterPlan
from penstock.planning.disk import DiskPlan
from penstock.planning.given import MB
from penstock.planning.memory import PAGE_CACHE_SECONDS, MemoryPlan
from penstock.planning.metadata import MetadataPlan
from penstock.planning.partitions import Need, PartitionPlan
from penstock.planning.spread import REPLICAS_PER_BROKER_MAX, Spread

Row = tuple[str, str, str]
UNITS = ("B", "kB", "MB", "GB", "TB", "PB", "EB")


def show_plan(
    rows: Sequence[Row], value: dict[str, object], *, spread: Spread | None, as_json: bool
) -> None:
    if as_json:
        print_json(value)
        return
    print_table(("what", "figure", "made of"), rows, wrapped=("made of",))
    if spread is not None and not spread.is_within_limit:
        say(
            f"more than {REPLICAS_PER_BROKER_MAX:,} replicas a broker:"
            f" {spread.brokers_min:,} brokers would do"
        )


def partition_rows(plan: PartitionPlan) -> list[Row]:
    needs = plan.needs
    return [
        ("partitions", f"{plan.partitions:,}", f"decided by {plan.decided_by.value}"),
        (
            "for throughput",
            f"{needs[Need.THROUGHPUT]:,}",
            f"{_rate(plan.throughput_mb)}, {_rate(plan.partition_mb)} each",
        ),
        ("for consumers", f"{needs[Need.CONSUMERS]:,}", "one for each"),
        ("for brokers", f"{needs[Need.BROKERS]:,}", "one for each"),
        (
            "achievable",
            _rate(plan.achievable_mb),
            f"{plan.partitions:,} × {_rate(plan.partition_mb)}",
        ),
        *_spread_rows(plan.spread),
    ]


def disk_rows(plan: DiskPlan) -> list[Row]:
    kept = duration_text(plan.retention_seconds * 1000).removesuffix(" 0h")
    written = f"{_rate(plan.throughput_mb)} for {kept}"
    on_brokers = f"on {counted(plan.brokers, 'broker')}"
    return [
        ("kept, a replica", bytes_text(plan.replica_bytes), written),
        ("open segments", bytes_text(plan.segments_bytes), "one more for each partition"),
        ("all replicas", bytes_text(plan.stored_bytes), f"both × {plan.replication_factor}"),
        ("stored by a broker", bytes_text(plan.broker_bytes), on_brokers),
        ("disk of a broker", bytes_text(plan.disk_bytes), f"{plan.fill_percent} % of it full"),
    ]


def metadata_rows(plan: MetadataPlan) -> list[Row]:
    return [*_spread_rows(plan.spread), *_metadata_rows(plan)]


def cluster_rows(plan: ClusterPlan) -> list[Row]:
    factor = plan.disk.replication_factor
    return [
        *partition_rows(plan.partitions),
        ("into a broker", _rate(plan.in_mb), f"producers write to {counted(factor, 'replica')}"),
        (
            "out of a broker",
            _rate(plan.out_mb),
            f"to {counted(factor - 1, 'follower')} and {counted(plan.groups, 'group')}",
        ),
        *disk_rows(plan.disk),
        *_memory_rows(plan.memory),
        *_metadata_rows(plan.metadata),
    ]


def _spread_rows(spread: Spread) -> list[Row]:
    brokers = counted(spread.brokers, "broker")
    return [
        (
            "partitions a broker",
            f"{spread.partitions_per_broker:,}",
            f"{spread.partitions:,} led by {brokers}",
        ),
        (
            "replicas a broker",
            f"{spread.replicas_per_broker:,}",
            f"{spread.partitions:,} × {spread.replication_factor} on {brokers};"
            f" up to {REPLICAS_PER_BROKER_MAX:,} are usual",
        ),
    ]


def _memory_rows(plan: MemoryPlan) -> list[Row]:
    return [
        ("memory of a broker", bytes_text(plan.whole_bytes), "page cache and process"),
        (
            "page cache",
            bytes_text(plan.page_cache_bytes),
            f"what is written in {PAGE_CACHE_SECONDS} s",
        ),
        (
            "process",
            bytes_text(plan.process_bytes),
            "idle node, replicas, metadata; Apache Kafka: 6 GB of heap",
        ),
    ]


def _metadata_rows(plan: MetadataPlan) -> list[Row]:
    return [
        ("metadata in memory", bytes_text(plan.image_bytes), "of each node"),
        ("metadata snapshot", bytes_text(plan.snapshot_bytes), "read at each start"),
        ("metadata on disk", bytes_text(plan.voter_bytes), "of a controller, log and snapshots"),
    ]


def counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def _rate(mb: float) -> str:
    """In MB, as rates are typed, but for what would be almost none of them."""
    if mb < 0.001:
        return f"{bytes_text(round(mb * MB))}/s"
    return f"{mb:,.0f} MB/s" if mb >= 100 else f"{mb:.3g} MB/s"


def bytes_text(size_bytes: int) -> str:
    """In three digits, and units of a thousand: 60.5 TB."""
    size: float = size_bytes
    for unit in UNITS[:-1]:
        if size < 999.5:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:.3g} {UNITS[-1]}" if size < 999.5 else f"{size:.0f} {UNITS[-1]}"


def partition_value(plan: PartitionPlan, measured: Measured | None) -> dict[str, object]:
    return {
        "partitions": plan.partitions,
        "decided_by": plan.decided_by.value,
        "needs": {need.value: plan.needs[need] for need in Need},
        "throughput_mb_per_second": plan.throughput_mb,
        "partition_mb_per_second": plan.partition_mb,
        "achievable_mb_per_second": plan.achievable_mb,
        "measured": None
        if measured is None
        else {
            "topic": measured.partition.topic,
            "partition": measured.partition.partition,
            "seconds": measured.seconds,
        },
        **_spread_value(plan.spread),
    }


def disk_value(plan: DiskPlan) -> dict[str, object]:
    return {
        "throughput_mb_per_second": plan.throughput_mb,
        "retention_seconds": plan.retention_seconds,
        "brokers": plan.brokers,
        "replication_factor": plan.replication_factor,
        "fill_percent": plan.fill_percent,
        "replica_bytes": plan.replica_bytes,
        "open_segments_bytes": plan.segments_bytes,
        "all_replicas_bytes": plan.stored_bytes,
        "stored_bytes_per_broker": plan.broker_bytes,
        "disk_bytes_per_broker": plan.disk_bytes,
    }


def metadata_value(plan: MetadataPlan) -> dict[str, object]:
    return {
        "partitions": plan.spread.partitions,
        **_spread_value(plan.spread),
        **_metadata_value(plan),
    }


def cluster_value(plan: ClusterPlan, measured: Measured | None) -> dict[str, object]:
    return {
        "partitions": partition_value(plan.partitions, measured),
        "traffic": {
            "groups": plan.groups,
            "in_mb_per_second_per_broker": plan.in_mb,
            "out_mb_per_second_per_broker": plan.out_mb,
        },
        "disk": disk_value(plan.disk),
        "memory": {
            "bytes_per_broker": plan.memory.whole_bytes,
            "page_cache_bytes": plan.memory.page_cache_bytes,
            "process_bytes": plan.memory.process_bytes,
        },
        "metadata": _metadata_value(plan.metadata),
    }


def _spread_value(spread: Spread) -> dict[str, object]:
    return {
        "brokers": spread.brokers,
        "replication_factor": spread.replication_factor,
        "partitions_per_broker": spread.partitions_per_broker,
        "replicas_per_broker": spread.replicas_per_broker,
        "replicas_per_broker_limit": REPLICAS_PER_BROKER_MAX,
        "within_limit": spread.is_within_limit,
        "brokers_needed": spread.brokers_min,
    }


def _metadata_value(plan: MetadataPlan) -> dict[str, object]:
    return {
        "image_bytes": plan.image_bytes,
        "snapshot_bytes": plan.snapshot_bytes,
        "controller_disk_bytes": plan.voter_bytes,
    }
