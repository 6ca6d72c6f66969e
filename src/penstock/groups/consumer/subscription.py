"""Which topics members read, and whether these have changed.

A group stores a hash of the topics it subscribes to: names, ids and numbers of partitions. When the
hash of the cluster's topics is another one, the group begins a new epoch. The hash is not Kafka's:
a group from a journal that Apache Kafka wrote begins one more epoch when it is first used.
"""

from collections.abc import Callable, Iterable
from hashlib import blake2b

from penstock.groups.consumer.group import ConsumerGroup
from penstock.groups.consumer.member import ConsumerMember
from penstock.metadata.image.image import Image
from penstock.metadata.image.shared_map import keys_beyond
from penstock.model.error import ErrorCode, RequestError
from penstock.model.identity import TopicId
from penstock.model.regex.pattern import Effort, TooManySteps, compile_pattern
from penstock.model.regex.syntax import InvalidRegex

NO_TOPICS_HASH = 0


def subscribed_names(group: ConsumerGroup, member: ConsumerMember) -> frozenset[str]:
    """The topics of one member, by name and by pattern; some may not exist."""
    return frozenset((*member.topics, *group.regexes.get(member.regex, ())))


def subscribed_ids(
    group: ConsumerGroup, member: ConsumerMember, image: Image
) -> frozenset[TopicId]:
    """The topics of one member that exist."""
    found = (image.topics_by_name.get(name) for name in subscribed_names(group, member))
    return frozenset(topic.topic_id for topic in found if topic is not None)


def group_names(group: ConsumerGroup) -> list[str]:
    """The topics of all members, in order."""
    names: set[str] = set()
    for member in group.members.values():
        names.update(member.topics)
        names.update(group.regexes.get(member.regex, ()))
    return sorted(names)


def metadata_hash(names: Iterable[str], image: Image) -> int:
    """The hash of the topics with these names that exist; it changes when any of them does."""
    digest, any_found = blake2b(digest_size=8), False
    for name in names:
        topic = image.topics_by_name.get(name)
        if topic is not None:
            any_found = True
            digest.update(f"{name}:{len(topic.partitions)}:".encode() + topic.topic_id)
    return int.from_bytes(digest.digest(), "big", signed=True) if any_found else NO_TOPICS_HASH


def resolve(
    regex: str, image: Image, *, may_describe: Callable[[str], bool] | None
) -> tuple[str, ...]:
    """The topics that match, of those that the client may describe. RequestError when the
    expression is invalid, or too costly.
    """
    try:
        found = compile_pattern(regex).matching(sorted(image.topics_by_name))
        return _described(found, may_describe)
    except InvalidRegex as invalid:
        raise RequestError(
            ErrorCode.INVALID_REGULAR_EXPRESSION,
            f"SubscribedTopicRegex `{regex}` is not a valid regular expression: {invalid}.",
        ) from invalid


def resolved_again(
    regex: str,
    topics: tuple[str, ...],
    image: Image,
    *,
    seen: Image | None,
    effort: Effort,
    may_describe: Callable[[str], bool] | None,
) -> tuple[str, ...]:
    """The topics that match now, given that `topics` matched in the image `seen`: only topics
    created since are matched, and all of them when access control entries have changed. New topics
    are left out when matching has become too costly.
    """
    known = image.topics_by_name
    if (
        may_describe is not None
        and seen is not None
        and seen.acls_by_pattern is not image.acls_by_pattern
    ):
        seen = None
    still = topics if seen is not None else ()
    names = list(known) if seen is None else keys_beyond(known, seen.topics_by_name)
    kept = tuple(topic for topic in still if topic in known)
    if not names:
        return kept
    try:
        found = _described(compile_pattern(regex).matching(names, effort), may_describe)
        return tuple(sorted({*kept, *found}))
    except TooManySteps:
        return _described((topic for topic in topics if topic in known), may_describe)
    except InvalidRegex:
        return topics  # taken for valid by whoever wrote the journal


def _described(
    topics: Iterable[str], may_describe: Callable[[str], bool] | None
) -> tuple[str, ...]:
    return tuple(topics if may_describe is None else filter(may_describe, topics))
