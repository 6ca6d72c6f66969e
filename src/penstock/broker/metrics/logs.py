"""The logs of this node, that of the metadata among them, and the directories they are in.

What was appended to a partition is the growth of its end offset, so `rate()` of it gives records a
second.
"""

from penstock.broker.partitions.log_directories import LogDirectories
from penstock.metrics.family import Source, Steps, gauge, printable
from penstock.world.errors import DiskError
from penstock.world.ports import Disk

SIZE = gauge("kafka_log_log_size", "Bytes of a partition's log here.", "topic", "partition")
START = gauge(
    "kafka_log_log_logstartoffset", "The first offset of a partition's log.", "topic", "partition"
)
END = gauge(
    "kafka_log_log_logendoffset",
    "The offset that the next record of a partition's log here gets.",
    "topic",
    "partition",
)
OFFLINE = gauge(
    "kafka_log_logmanager_offlinelogdirectorycount",
    "Log directories that have failed, or could not be opened.",
)
USED = gauge("penstock_log_directory_used_bytes", "Bytes of the logs in a directory.", "directory")
FREE = gauge(
    "penstock_log_directory_free_bytes",
    "Bytes that are free on the disk of a directory.",
    "directory",
)
TOTAL = gauge(
    "penstock_log_directory_total_bytes", "The size of the disk of a directory.", "directory"
)


def log_metrics(directories: LogDirectories) -> Source:
    def samples() -> Steps:
        for directory in list(directories):
            used = 0
            for (topic, index), log in list(directory.logs.items()):
                labels = (topic, str(index))
                size = log.size_bytes
                used += size
                yield SIZE.sample(size, *labels)
                yield START.sample(log.start_offset, *labels)
                yield END.sample(log.end_offset, *labels)
            yield USED.sample(used, printable(directory.path))

    return Source((SIZE, START, END, USED), samples)


def directory_metrics(directories: LogDirectories, disk: Disk) -> Source:
    """Of the directories and their disks, however many logs they hold."""

    def samples() -> Steps:
        yield OFFLINE.sample(len(directories.failed))
        for directory in list(directories):
            path = directory.path
            name = printable(path)
            try:
                free, total = disk.free_bytes(path), disk.total_bytes(path)
            except DiskError:
                continue  # that it has failed shows where it is written to
            yield FREE.sample(free, name)
            yield TOTAL.sample(total, name)

    return Source((OFFLINE, FREE, TOTAL), samples)
