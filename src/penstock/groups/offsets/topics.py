"""Topics as a request about offsets names them: by name, or by id from version 10 on."""

from penstock.groups.decision_context import DecisionContext
from penstock.metadata.image.topic import TopicImage
from penstock.model.error import ErrorCode
from penstock.model.identity import NO_TOPIC_ID, TopicId

TOPIC_IDS_FROM = 10  # of OffsetCommit and OffsetFetch


def find_topic(
    context: DecisionContext, *, name: str, topic_id: bytes, version: int
) -> TopicImage | ErrorCode:
    """The topic, or the error code when it does not exist."""
    if version >= TOPIC_IDS_FROM:
        found = context.image.topics_by_id.get(TopicId(topic_id))
        return ErrorCode.UNKNOWN_TOPIC_ID if found is None else found
    found = context.image.topics_by_name.get(name)
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if found is None else found


def is_of_topic(committed_for: bytes, topic: TopicImage) -> bool:
    """Whether an offset belongs to this topic, and not to an earlier topic of the same name."""
    return committed_for in (topic.topic_id, NO_TOPIC_ID)
