"""What replicas are when the faults are over: equal, or in what way they are not yet."""

from collections.abc import Iterable

from penstock.log.partition_log import PartitionLog
from penstock.sim.replication.controller import Image
from penstock.sim.replication.process import Process
from penstock.sim.replication.violation import Violation


def ailment(image: Image, processes: Iterable[Process]) -> str:
    ends = {
        one.node_id: (int(one.log.end_offset), int(one.high_watermark))
        for one in processes
        if one.alive
    }
    return (
        f"leader {image.leader} of epoch {image.leader_epoch}, in sync {image.in_sync}, "
        f"ends and watermarks {ends}"
    )


def compare_logs(processes: list[Process]) -> None:
    """The replicas are equal, byte for byte, and their lists of epochs are right."""
    logs = [one.log for one in processes]
    start = max(log.start_offset for log in logs)
    contents = [[bytes(batch.view) for batch in log.batches_from(start)] for log in logs]
    for process, content in zip(processes, contents, strict=True):
        if content != contents[0]:
            raise Violation(
                f"replicas disagree when all is well: nodes {processes[0].node_id} and "
                f"{process.node_id}"
            )
        _check_epochs(process.log)


def _check_epochs(log: PartitionLog) -> None:
    firsts: dict[int, int] = {}
    for batch in log.batches_from(log.start_offset):
        firsts.setdefault(batch.leader_epoch, batch.base_offset)
    for entry in log.epochs.entries:
        first = firsts.get(entry.epoch, entry.start_offset)
        if first > entry.start_offset >= log.start_offset:
            raise Violation(
                f"epoch list is wrong: epoch {entry.epoch} from {entry.start_offset}, its first "
                f"batch is at {first}"
            )
