"""What the machines of nodes have: room on disks, clocks, descriptors."""

from penstock.client.admin.admin import LogDirectory
from penstock.doctor.durability import number
from penstock.doctor.finding import Advice, Fault, Finding, fail, finding, unknown, warn
from penstock.doctor.seen import ClockSeen, ClusterSeen, Limits, Unseen
from penstock.model.identity import NodeId
from penstock.records.layout import TimestampType

SKEW_MS_WARN = 1_000
SKEW_MS_FAIL = 10_000
FUTURE_MS_MAX = 60_000  # of timestamps that producers gave
SEGMENT_BYTES_DEFAULT = 2**30
FILES_OF_A_SEGMENT = 3
DESCRIPTORS_WARN = 0.8  # of the limit, as the alert PenstockDescriptorsRunOut
DESCRIPTORS_FAIL = 0.95
SYNCHRONISE = Advice(text="synchronise the clocks of these machines: NTP or chrony")
LOOK_AT_CLOCKS = Advice(text="see on each machine that its clock is synchronised: `timedatectl`")


def disk(seen: ClusterSeen, limits: Limits) -> Finding:
    faults = []
    least = 100.0
    for node, directories in sorted(seen.directories.items()):
        if isinstance(directories, Unseen):
            faults.append(unknown(directories.reason))
            continue
        for one in directories:
            where = f"broker {node} {one.path}"
            if one.error is not None:
                advice = f"mend the disk of broker {node}, and start it again"
                faults.append(fail(f"{where} is offline", Advice(text=advice)))
            elif one.total_bytes is None or one.usable_bytes is None or not one.total_bytes:
                faults.append(unknown(f"{where}: it does not tell its size (before Kafka 3.3)"))
            else:
                free = 100 * one.usable_bytes / one.total_bytes
                least = min(least, free)
                if free < limits.disk_free_percent_min:
                    reason = f"{where}: {free:.0f} % free, {limits.disk_free_percent_min} % wanted"
                    short = free < limits.disk_free_percent_min / 2
                    mend = Advice(text=_room(one, node))
                    faults.append(fail(reason, mend) if short else warn(reason, mend))
    return finding("disk", faults, passed=f"{least:.0f} % free or more on every disk")


def _room(directory: LogDirectory, node: NodeId) -> str:
    sizes: dict[str, int] = {}
    for replica in directory.replicas:
        topic = replica.partition.topic
        sizes[topic] = sizes.get(topic, 0) + replica.size_bytes
    if not sizes:
        return f"make room on the disk of broker {node}: the log has none of it"
    largest = max(sizes, key=lambda topic: (sizes[topic], topic))
    return f"a larger disk, or a shorter retention: {largest} takes {sizes[largest]:,} bytes"


def clock(seen: ClusterSeen, limits: Limits) -> Finding:
    faults = []
    unseen: dict[str, list[NodeId]] = {}
    controller: NodeId | None = None
    if isinstance(seen.clock, Unseen):
        faults.append(unknown(seen.clock.reason))
    else:
        controller = seen.clock.node_id
        faults += _skewed(seen.clock, f"controller {controller}")
    for node in seen.running():
        one = seen.clocks[node]
        if node == controller:
            continue  # its answer is shorter than a page of metrics, and so is more exact
        if isinstance(one, Unseen):
            unseen.setdefault(one.reason, []).append(node)
        else:
            faults += _skewed(one, f"broker {node}")
    faults += [
        unknown(_unseen_clocks(nodes, reason), LOOK_AT_CLOCKS) for reason, nodes in unseen.items()
    ]
    for place, batches in () if isinstance(seen.batches, Unseen) else sorted(seen.batches.items()):
        for batch in batches:
            ahead_ms = batch.timestamp_ms_max - seen.at_ms
            by_broker = batch.timestamp_type is TimestampType.LOG_APPEND_TIME
            if ahead_ms > (SKEW_MS_FAIL if by_broker else FUTURE_MS_MAX):
                whose = "its leader's" if by_broker else "a producer's"
                reason = f"{place}: {whose} clock was {ahead_ms / 1000:,.0f} s ahead"
                faults.append(warn(reason, SYNCHRONISE))
                break
    return finding(
        "clock",
        faults,
        passed="the clocks of the controller and of all brokers agree with this machine",
    )


def _skewed(clock: ClockSeen, who: str) -> list[Fault]:
    skew_ms = max(0, abs(clock.ahead_ms) - clock.within_ms)
    side = "ahead of" if clock.ahead_ms > 0 else "behind"
    reason = f"{who} is {skew_ms / 1000:.1f} s {side} this machine"
    if skew_ms >= SKEW_MS_FAIL:
        return [fail(reason, SYNCHRONISE)]
    if skew_ms >= SKEW_MS_WARN:
        return [warn(reason, SYNCHRONISE)]
    if clock.within_ms >= SKEW_MS_WARN:
        took = f"took {2 * clock.within_ms / 1000:.1f} s to answer"
        return [unknown(f"{who} {took}: its clock is not known to the second")]
    return []


def _unseen_clocks(nodes: list[NodeId], reason: str) -> str:
    *others, last = map(str, nodes)
    if not others:
        return f"the clock of broker {last} is not known: {reason}"
    return f"the clocks of brokers {', '.join(others)} and {last} are not known: {reason}"


def descriptors(seen: ClusterSeen, limits: Limits) -> Finding:
    faults = []
    most = 0.0
    needed = max((_files_of_logs(seen, node) for node in seen.descriptors), default=0)
    on_each = f"on each node ulimit -n must exceed {needed:,} files of logs, and its connections"
    unseen = dict.fromkeys(
        one.reason for one in seen.descriptors.values() if isinstance(one, Unseen)
    )
    faults += [unknown(reason, Advice(text=on_each)) for reason in unseen]
    for node, told in sorted(seen.descriptors.items()):
        if isinstance(told, Unseen):
            continue
        used = told.open / max(1, told.limit)
        most = max(most, used)
        if used > DESCRIPTORS_WARN:
            reason = f"broker {node} has {told.open:,} of {told.limit:,} descriptors open"
            advice = (
                f"raise ulimit -n of broker {node} (LimitNOFILE of systemd): its logs have"
                f" {_files_of_logs(seen, node):,} files; or find who opens many connections"
            )
            judge = fail if used > DESCRIPTORS_FAIL else warn
            faults.append(judge(reason, Advice(text=advice)))
    return finding(
        "descriptors", faults, passed=f"nodes have {100 * most:.0f} % of theirs open, or less"
    )


def _files_of_logs(seen: ClusterSeen, node: NodeId) -> int:
    settings = {} if isinstance(seen.topic_settings, Unseen) else seen.topic_settings
    directories = seen.directories.get(node, ())
    files = 0
    for directory in () if isinstance(directories, Unseen) else directories:
        for replica in directory.replicas:
            told = number(settings.get(replica.partition.topic, {}).get("segment.bytes"))
            segments = 1 + replica.size_bytes // (told or SEGMENT_BYTES_DEFAULT)
            files += segments * FILES_OF_A_SEGMENT
    return files
