"""Which topic each new directory belongs to, made durable with one sync for any number of them.

    <topic>-<partition>/partition.metadata    the claim itself, as Apache Kafka writes it
    unsynced-topic-ids, text, one line a claim, the latest one counts:
        orders 0 AAECAwQFBgcICQoLDA0ODw       topic, partition, topic id

A claim must survive a power loss before its directory holds data, or the records of a deleted topic
could appear in the next topic of that name. Syncing each claim costs two fsyncs per partition, a
second for a topic of a few hundred; so the claims of one step are listed in one file, which is
synced. A clean stop, or the next start, syncs the listed claims themselves and removes the list.

Invariants:
 1. A claim is on disk, in its directory or in the list, before the directory is.
 2. A readable claim in the directory takes precedence over the list, which may name a deleted
    topic.
"""

from collections.abc import Mapping

from penstock.log import layout
from penstock.log.checkpoint import decode_topic_id, encode_partition_metadata
from penstock.log.creation import topic_id_of
from penstock.log.errors import CorruptCheckpoint
from penstock.model.identity import NO_TOPIC_ID, TopicId, TopicPartition, id_text
from penstock.model.limit import MIB
from penstock.world.ports import Disk

LIST_BYTES_MAX = 1 * MIB


class Claims:
    """The claims of one data directory."""

    def __init__(self, *, disk: Disk, path: str) -> None:
        self._disk = disk
        self._path = path
        self._list_path = f"{path}/{layout.UNSYNCED_TOPIC_IDS}"

    def make_directories(self, claims: Mapping[TopicPartition, TopicId]) -> None:
        """Makes directories and claims them; both are durable from here on. With NO_TOPIC_ID they
        belong to no topic yet.
        """
        # The list is written first: after a crash the next start writes the claims again.
        self._list({one: topic_id for one, topic_id in claims.items() if topic_id != NO_TOPIC_ID})
        for partition, topic_id in claims.items():
            self._disk.make_directory(self._directory(partition))
            if topic_id != NO_TOPIC_ID:
                self._write(partition, topic_id)
        self._disk.sync_directory(self._path)

    def settle(self) -> None:
        """Syncs every listed claim and removes the list."""
        if self._disk.exists(self._list_path):
            self._settle_all()
            self._disk.remove(self._list_path)

    def _list(self, claims: Mapping[TopicPartition, TopicId]) -> None:
        if not claims:
            return
        is_new = not self._disk.exists(self._list_path)
        file = self._disk.open(self._list_path, create=True)
        try:
            if file.size > LIST_BYTES_MAX:
                self._settle_all()
                file.truncate(0)
            lines = (
                f"{partition.topic} {partition.partition} {id_text(topic_id)}\n"
                for partition, topic_id in claims.items()
            )
            file.append(["".join(lines).encode()])
            file.sync()
        finally:
            file.close()
        if is_new:
            self._disk.sync_directory(self._path)

    def _settle_all(self) -> None:
        unsynced: list[str] = []
        for partition, topic_id in self._listed().items():
            directory = self._directory(partition)
            if self._disk.is_directory(directory):
                unsynced += self._mend(directory, topic_id)
        self._disk.sync_all(unsynced)

    def _mend(self, directory: str, topic_id: TopicId) -> list[str]:
        """Writes a claim that was lost; what is to be synced for one that is there."""
        path = f"{directory}/{layout.PARTITION_METADATA}"
        try:
            found = topic_id_of(self._disk, directory)
        except CorruptCheckpoint:
            found = None
        if found is None:
            self._disk.write_whole(path, encode_partition_metadata(topic_id))
        return [path, directory] if found == topic_id else []

    def _listed(self) -> dict[TopicPartition, TopicId]:
        """The latest claim of each partition; a torn last line was never relied on."""
        listed: dict[TopicPartition, TopicId] = {}
        for line in self._disk.read(self._list_path).decode(errors="replace").splitlines(True):
            fields = line.split()
            if not line.endswith("\n") or len(fields) != 3 or not fields[1].isdecimal():
                continue
            try:
                topic_id = decode_topic_id(self._list_path, fields[2])
            except CorruptCheckpoint:
                continue
            listed[TopicPartition(fields[0], int(fields[1]))] = topic_id
        return listed

    def _write(self, partition: TopicPartition, topic_id: TopicId) -> None:
        directory = self._directory(partition)
        file = self._disk.open(f"{directory}/{layout.PARTITION_METADATA}", create=True)
        try:
            file.truncate(0)
            file.append([encode_partition_metadata(topic_id)])
        finally:
            file.close()

    def _directory(self, partition: TopicPartition) -> str:
        return f"{self._path}/{layout.partition_directory(partition)}"
