"""How far the moves of `penstock partitions reassign` are: once, or until all is complete."""

import asyncio
from dataclasses import replace

from penstock.cli.connect import until_interrupted
from penstock.cli.copy_bar import CopyBar
from penstock.cli.show import say
from penstock.client.admin.directory_moves import (
    FollowedDirectory,
    end_directory_throttles,
    follow_directories,
)
from penstock.client.admin.moving import Followed, Stage, end_throttles, follow_moves
from penstock.client.admin.reassignment_plan import Directories, Targets
from penstock.client.admin.replica_sizes import Copied
from penstock.client.network.cluster import Cluster
from penstock.client.network.repeated import GONE
from penstock.model.identity import TopicPartition
from penstock.model.lazy_dataclass import dataclass

LOOK_SECONDS = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    found: list[Followed]
    directories: list[FollowedDirectory]
    whole: bool = True  # False: Ctrl-C ended the wait

    @property
    def is_over(self) -> bool:
        stages = [one.stage for one in self.found] + [one.stage for one in self.directories]
        return Stage.MOVING not in stages

    @property
    def elsewhere(self) -> int:
        """How many partitions and replicas are neither there nor on the way."""
        stages = [one.stage for one in self.found] + [one.stage for one in self.directories]
        return stages.count(Stage.ELSEWHERE)

    def copied(self) -> dict[TopicPartition, Copied]:
        """Of partitions that move, between brokers and directories together."""
        parts: dict[TopicPartition, list[Copied]] = {}
        for one in self.found:
            if one.copied is not None:
                parts.setdefault(one.partition, []).append(one.copied)
        for moved in self.directories:
            if moved.copied is not None:
                parts.setdefault(moved.replica.partition, []).append(moved.copied)
        return {
            place: Copied(
                done_bytes=sum(one.done_bytes for one in copies),
                whole_bytes=sum(one.whole_bytes for one in copies),
            )
            for place, copies in parts.items()
        }


async def followed(cluster: Cluster, targets: Targets, directories: Directories) -> Watched:
    found = await follow_moves(cluster, targets)
    moving = [one.partition for one in found if one.stage is Stage.MOVING]
    return Watched(
        found=found, directories=await follow_directories(cluster, directories, moving=moving)
    )


async def watched(cluster: Cluster, targets: Targets, directories: Directories) -> Watched:
    """Until all is complete, or Ctrl-C; the throttle ends with the last move. A cluster that does
    not answer is reported, and asked again.
    """
    places = dict.fromkeys((*targets, *(replica.partition for replica in directories)))

    async def watch() -> None:
        with CopyBar(description="copied") as bar:
            while True:
                try:
                    now = await followed(cluster, targets, directories)
                except GONE as away:
                    say(f"the cluster is away: {away}", err=True)
                    await asyncio.sleep(LOOK_SECONDS)
                    continue
                bar.show(now.copied(), of=places)
                if now.is_over:
                    return
                await asyncio.sleep(LOOK_SECONDS)

    whole = await until_interrupted(watch())
    if whole:
        await end_throttles(cluster, {place.topic for place in targets})
        if directories:
            await end_directory_throttles(cluster)
    return replace(await followed(cluster, targets, directories), whole=whole)
