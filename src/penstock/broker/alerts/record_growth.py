"""Records that were written between two rounds, to the partitions that this node leads.

A partition that the metadata did not have in the last round began empty, so all that it holds is
new: a topic of dead letters is often made by the first letter. One that another node led before is
not counted in its first round here: the other leader has counted.
"""

from collections.abc import Callable, Mapping

from penstock.alerts import rules
from penstock.alerts.growth import Growth
from penstock.alerts.rule import WHOLE
from penstock.broker.partitions.partitions import Partitions
from penstock.metadata.image.image import Image
from penstock.model.identity import TopicId, TopicPartition
from penstock.model.topic_name import holds_dead_letters, is_of_the_system

Figures = dict[str, dict[str, float | None]]  # by rule and subject


class RecordGrowth:
    """`image` is that by which `partitions` are led."""

    def __init__(self, partitions: Partitions, image: Callable[[], Image]) -> None:
        self._partitions = partitions
        self._image = image
        self._growth: Growth[TopicPartition] = Growth()
        self._counts: Mapping[TopicId, int] = {}  # partitions of each topic in the last round

    def look(self, *, now_ms: int) -> Figures:
        figures: Figures = {}
        before, self._counts = self._counts, self._partition_counts()
        ends: dict[TopicPartition, int] = {
            partition.name: partition.log.end_offset
            for partition in self._partitions.led()
            if not is_of_the_system(partition.name.topic)
        }
        grown, seconds = self._growth.look(ends, begun=self._begun(before), now_ms=now_ms)
        if seconds > 0:
            figures[rules.MESSAGE_RATE.name] = {WHOLE: sum(grown.values()) / seconds}
        letters: dict[str, float | None] = {}
        for name, records in grown.items():
            if holds_dead_letters(name.topic):
                letters[name.topic] = (letters.get(name.topic) or 0) + records
        figures[rules.DEAD_LETTERS.name] = letters
        return figures

    def _partition_counts(self) -> dict[TopicId, int]:
        topics = self._image().topics_by_id
        return {topic_id: len(topic.partitions) for topic_id, topic in topics.items()}

    def _begun(self, before: Mapping[TopicId, int]) -> set[TopicPartition]:
        """Partitions that the metadata have by now, and had not in the last round."""
        topics = self._image().topics_by_id
        return {
            TopicPartition(topics[topic_id].name, index)
            for topic_id, count in self._counts.items()
            for index in range(before.get(topic_id, 0), count)
        }
