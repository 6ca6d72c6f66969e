"""A group of real consumers with a steady flow of records into its topic."""

from dataclasses import dataclass

from rig.members.member import GroupOfMembers
from rig.steady_producer import SteadyProducer


@dataclass
class FedGroup:
    """A group on a topic of its own; those who test a protocol say how its members start."""

    group: GroupOfMembers
    producer: SteadyProducer

    def stop_writing(self) -> None:
        """And wait until all that was written is read by somebody."""
        self.producer.__exit__(None, None, None)
        assert self.producer.stored
        self.group.await_read(self.producer.stored)

    def assert_read_once(self) -> None:
        twice = {position: count for position, count in self.group.read().items() if count > 1}
        assert not twice
