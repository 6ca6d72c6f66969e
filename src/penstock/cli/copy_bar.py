"""A bar of copied bytes, where somebody looks; into a pipe or a file nothing is shown."""

from collections.abc import Collection, Mapping
from types import TracebackType
from typing import Self

from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)

from penstock.cli.show import OutputConsole
from penstock.client.admin.replica_sizes import Copied
from penstock.model.identity import TopicPartition


class CopyBar:
    """Partitions that have left the list since the start count as complete."""

    def __init__(self, *, description: str) -> None:
        console = OutputConsole(stderr=True)
        self._progress = (
            Progress(
                TextColumn("{task.description}"),
                BarColumn(),
                DownloadColumn(),
                TransferSpeedColumn(),
                TimeRemainingColumn(),
                console=console,
            )
            if console.is_terminal
            else None
        )
        self._description = description
        self._whole: dict[TopicPartition, int] = {}
        self._task = (
            None if self._progress is None else self._progress.add_task(description, total=None)
        )

    def __enter__(self) -> Self:
        if self._progress is not None:
            self._progress.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._progress is not None:
            self._progress.stop()

    def show(
        self,
        moving: Mapping[TopicPartition, Copied],
        *,
        of: Collection[TopicPartition],
        complete: int | None = None,
    ) -> None:
        """How far those are that still move, of all that are to; all others are complete, unless
        their number is told.
        """
        if self._progress is None or self._task is None:
            return
        for place, one in moving.items():
            self._whole[place] = max(self._whole.get(place, 0), one.whole_bytes)
        copied = sum(whole for place, whole in self._whole.items() if place not in moving)
        count = len(of) - len(moving) if complete is None else complete
        self._progress.update(
            self._task,
            completed=copied + sum(one.done_bytes for one in moving.values()),
            total=sum(self._whole.values()) or None,
            description=f"{self._description}: {count} of {len(of)} partitions",
        )
