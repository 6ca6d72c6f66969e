"""What holds in every run, whatever fails: checked at each step, on what the step touched.

1. In one leader epoch one process leads, and one process acks.
2. What one replica knows to be committed, every replica that knows the offset has.
3. A leader has everything that earlier epochs have committed, unless it was elected although nobody
   was left who had it: then it is marked as recovering, and acks do not wait for syncs.
4. Every replica that the controller could choose as the leader, being in sync or eligible, has what
   is committed, as soon as it is, whether or not it is ever chosen.
5. An ack is given for a committed record that enough replicas have got, and have synced where acks
   wait for syncs.
6. The high watermark of a replica does not go back while its process lives, and a reader who asks
   for the end of the log after an election is not told less than anybody before it.
"""

from penstock.log.partition_log import PartitionLog
from penstock.model.identity import NodeId
from penstock.model.offset import Offset
from penstock.sim.replication.violation import Violation


class Checker:
    def __init__(self, *, acks_wait_for_syncs: bool, finds_second_leaders: bool = True) -> None:
        """Without `finds_second_leaders` the second leader of an epoch is found by its acks."""
        self.acked = 0
        self.committed_end = Offset(0)
        self.leaders: dict[int, tuple[NodeId, int]] = {}  # node and broker epoch, by leader epoch
        self.ackers: dict[int, tuple[NodeId, int]] = {}  # who has acked, likewise
        self.forgiven = 0  # elections that may have lost records
        self._forgiven_epoch = -1  # of the last one: what older leaders still do counts no more
        self._acks_wait_for_syncs = acks_wait_for_syncs
        self._finds_second_leaders = finds_second_leaders
        # By base offset: what batch is committed, by its checksum, and in which epoch it was.
        self._committed: dict[Offset, tuple[int, int]] = {}
        self._holders: dict[int, set[NodeId]] = {}  # who has got a batch, by its checksum
        self._ends_told: dict[int, Offset] = {}  # to readers, by leader epoch

    def holds(self, node: NodeId, log: PartitionLog, *, start: Offset, end: Offset) -> None:
        """A node has appended [start, end); where acks wait for syncs: has synced it."""
        for batch in log.batches_from(start):
            if batch.base_offset >= end:
                break
            self._holders.setdefault(batch.checksum, set()).add(node)

    def elected(
        self, epoch: int, node: NodeId, broker_epoch: int, log: PartitionLog, *, recovering: bool
    ) -> None:
        process = (node, broker_epoch)
        known = self.leaders.setdefault(epoch, process)
        if known != process and self._finds_second_leaders:
            raise Violation(
                f"two leaders in epoch {epoch}: node {known[0]} of broker epoch {known[1]} and "
                f"node {node} of {broker_epoch}"
            )
        has = {batch.base_offset: batch.checksum for batch in log.batches_from(log.start_offset)}
        missing = [
            offset
            for offset, (checksum, committed_in) in self._committed.items()
            if committed_in < epoch and offset >= log.start_offset and has.get(offset) != checksum
        ]
        if not missing:
            if recovering and not self._acks_wait_for_syncs:
                # What older leaders have not committed yet may be lost as well.
                self._forgiven_epoch = epoch
            return
        if not recovering:
            raise Violation(
                f"acked record lost: node {node} leads epoch {epoch} without offset {min(missing)}"
            )
        if self._acks_wait_for_syncs:
            raise Violation(
                f"synced record lost: node {node} recovers in epoch {epoch} without offset "
                f"{min(missing)}"
            )
        self.forgive(Offset(min(missing)), epoch=epoch)

    def forgive(self, offset: Offset, *, epoch: int) -> None:
        """Nobody has the records from `offset` on any more who could have led `epoch`."""
        self.forgiven += 1
        self._forgiven_epoch = epoch
        for known in [known for known in self._committed if known >= offset]:
            del self._committed[known]
        self.committed_end = min(self.committed_end, offset)
        self._ends_told.clear()

    def commits(
        self,
        node: NodeId,
        log: PartitionLog,
        *,
        epoch: int,
        start: Offset,
        end: Offset,
        successors: list[tuple[NodeId, PartitionLog]],
    ) -> None:
        """A replica takes [start, end) for committed; the first to do so is the leader."""
        if epoch < self._forgiven_epoch:
            return
        for batch in log.batches_from(max(start, log.start_offset)):
            offset = batch.base_offset
            if offset >= end:
                break
            known = self._committed.get(offset)
            if known is None:
                if offset < self.committed_end and not self.forgiven:
                    raise Violation(f"node {node} commits {offset}, inside of another batch")
                self._committed[offset] = (batch.checksum, epoch)
                self.committed_end = max(self.committed_end, batch.next_offset)
                for other, others in successors:
                    if others.start_offset <= offset and not _has(others, offset, batch.checksum):
                        raise Violation(
                            f"acked record would be lost: node {node} commits offset {offset} in "
                            f"epoch {epoch}, node {other} could be elected and does not have it"
                        )
            elif known[0] != batch.checksum:
                raise Violation(
                    f"replicas disagree below the watermark: node {node} has another batch at "
                    f"{offset} than epoch {known[1]} had committed"
                )

    def acks(
        self,
        node: NodeId,
        offset: Offset,
        checksum: int,
        *,
        broker_epoch: int,
        epoch: int,
        in_sync_min: int,
    ) -> None:
        self.acked += 1
        process = (node, broker_epoch)
        acker = self.ackers.setdefault(epoch, process)
        if acker != process:
            raise Violation(
                f"two leaders ack in epoch {epoch}: node {acker[0]} of broker epoch {acker[1]} "
                f"and node {node} of {broker_epoch}"
            )
        if epoch < self._forgiven_epoch:
            return
        holders = self._holders.get(checksum, set())
        if len(holders) < in_sync_min:
            raise Violation(
                f"ack before replication: offset {offset} is acked, and only nodes "
                f"{sorted(holders)} have got it"
            )
        known = self._committed.get(offset)
        if known is None or known[0] != checksum:
            raise Violation(f"acked but not committed: offset {offset}")

    def told_end(self, node: NodeId, epoch: int, offset: Offset) -> None:
        """A reader asks the leader of `epoch` for the end of the log."""
        if epoch < self._forgiven_epoch:
            return
        for earlier, told in self._ends_told.items():
            if earlier < epoch and told > offset:
                raise Violation(
                    f"watermark goes back for a reader: node {node} tells {offset} in epoch "
                    f"{epoch}, {told} was told in epoch {earlier}"
                )
        self._ends_told[epoch] = max(offset, self._ends_told.get(epoch, offset))

    def went_back(self, node: NodeId, *, before: Offset, after: Offset) -> None:
        if not self.forgiven:
            raise Violation(
                f"watermark goes back for a reader: node {node} had {before}, has {after}"
            )


def _has(log: PartitionLog, offset: Offset, checksum: int) -> bool:
    if offset >= log.end_offset:
        return False
    for batch in log.batches_from(offset):
        return batch.base_offset == offset and batch.checksum == checksum
    return False
