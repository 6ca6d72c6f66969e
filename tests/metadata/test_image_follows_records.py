"""However the records of a history are cut into steps, the image at its end is the same."""

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.metadata.image.image import ConfigResource, Delta, Image
from penstock.metadata.loader import Loader
from penstock.metadata.records import MetadataRecord, decode_record, encode_record
from penstock.model.configs import ResourceKind
from penstock.model.identity import TopicId
from penstock.model.offset import LeaderEpoch, Offset
from penstock.wire.messages.metadata_records.topic import RemoveTopicRecord
from rig.metadata_histories import histories, live


def load(records: list[MetadataRecord], cuts: set[int]) -> tuple[Image, list[Delta]]:
    loader = Loader()
    deltas = []
    start = 0
    for end in sorted({cut for cut in cuts if 0 < cut < len(records)} | {len(records)}):
        # Topics without partitions exist only inside a step.
        delta, _ = loader.load(records[start:end], next_offset=Offset(end), epoch=LeaderEpoch(1))
        loader.image.check()
        deltas.append(delta)
        start = end
    return loader.image, deltas


# One topic that is made and deleted again and again: what it was must not show in what it is.
one_topic = st.lists(st.tuples(st.booleans(), st.booleans()), max_size=5).map(
    lambda lives: [
        step
        for configured, altered in lives
        for step in (
            ("create", "a", 1, configured),
            *([("alter", "a", "segment.ms", "1")] if altered else []),
            ("delete", "a"),
        )
    ][:-1]
)


@settings(max_examples=200)
@given(history=st.one_of(histories, one_topic), data=st.data())
def test_the_image_does_not_depend_on_how_the_log_was_read(
    history: list[tuple[object, ...]], data: st.DataObject
) -> None:
    cluster = live(history)
    stored = [decode_record(encode_record(record)) for record in cluster.records]
    cuts = data.draw(st.sets(st.sampled_from(sorted(boundaries(stored)))))
    stepwise, deltas = load(stored, cuts)
    at_once, _ = load(stored, set())
    assert stepwise == at_once
    assert replace(cluster.image, offset=at_once.offset, epoch=at_once.epoch) == at_once
    follow(deltas, at_once)


def boundaries(records: list[MetadataRecord]) -> set[int]:
    """Where a decision of ours may end: not between a topic and its partitions."""
    names = [type(record).__name__ for record in records]
    inside = {"PartitionRecord", "ConfigRecord"}
    return {index for index in range(1, len(names)) if names[index] not in inside}


def follow(deltas: list[Delta], image: Image) -> None:
    """Who reacts to the deltas alone ends up with the topics of the image."""
    known: dict[TopicId, int] = {}
    for delta in deltas:
        for topic in delta.topics_deleted:
            del known[topic.topic_id]
        for topic in delta.topics_created:
            assert topic.topic_id not in known
            known[topic.topic_id] = len(topic.partitions)
        for topic in delta.topics_changed:
            assert topic.topic_id in known
            known[topic.topic_id] = len(topic.partitions)
    found = {topic_id: len(topic.partitions) for topic_id, topic in image.topics_by_id.items()}
    assert known == found


def test_a_topic_made_again_in_the_step_of_its_deletion_begins_with_its_own_settings() -> None:
    history: list[tuple[object, ...]] = [
        ("create", "a", 1, False),
        ("alter", "a", "segment.ms", "1"),
        ("delete", "a"),
        ("create", "a", 1, True),
    ]
    records = live(history).records
    deleted = next(
        index for index, record in enumerate(records) if isinstance(record, RemoveTopicRecord)
    )
    image, deltas = load(records, {deleted})
    assert dict(image.config(ResourceKind.TOPIC, "a")) == {"retention.ms": "5"}
    assert deltas[-1].configs_changed == (ConfigResource(ResourceKind.TOPIC, "a"),)


def test_a_topic_made_and_deleted_in_one_step_leaves_no_trace() -> None:
    cluster = live([("create", "a", 2, True), ("delete", "a")])
    image, (delta,) = load(cluster.records, set())
    assert image.topics_by_name == {}
    assert ConfigResource(ResourceKind.TOPIC, "a") not in image.configs
    assert delta.topics_created == delta.topics_deleted == ()


def test_a_topic_deleted_and_made_again_in_one_step_is_told_as_both() -> None:
    before = live([("create", "a", 1, False)])
    count = len(before.records)
    after = live([("create", "a", 1, False), ("delete", "a"), ("create", "a", 3, True)])
    assert after.records[:count] == before.records
    _, (_, delta) = load(after.records, {count})
    assert [topic.name for topic in delta.topics_deleted] == ["a"]
    assert [len(topic.partitions) for topic in delta.topics_created] == [3]
    assert len(delta.configs_changed) == 1
