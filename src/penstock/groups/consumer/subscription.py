"""Which topics members read, and whether these have changed.

A group stores a hash of the topics it subscribes to: names, ids and numbers of partitions. When the
hash of the cluster's topics is another one, the group begins a new epoch. The hash is not Kafka's:
a group from a journal that Apache Kafka wrote begins one more epoch when it is first used.
"""

from collections.abc import Callable, Iterable, Set
from hashlib import blake2b
from itertools import chain

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


def ids_by_subscription(
    group: ConsumerGroup, image: Image
) -> dict[tuple[tuple[str, ...], str], frozenset[TopicId]]:
    """As `subscribed_ids` for all members, by names and pattern: most of them subscribe to the
    same.
    """
    known = image.topics_by_name
    existing = frozenset(existing_names(group, image))
    ids: dict[tuple[tuple[str, ...], str], frozenset[TopicId]] = {}
    for member in group.members.values():
        key = (member.topics, member.regex)
        if key not in ids:
            names = existing.intersection(chain(member.topics, group.regexes.get(member.regex, ())))
            ids[key] = frozenset(known[name].topic_id for name in names)
    return ids


def group_names(group: ConsumerGroup) -> Set[str]:
    """The topics of all members, by name and by pattern; some may not exist. It is good as long as
    the group does not change.
    """
    used = {member.regex for member in group.members.values()}
    matching = [topics for regex, topics in group.regexes.items() if regex in used]
    names = group.subscribers.keys()
    return names if not matching else names | set(chain(*matching))


def existing_names(group: ConsumerGroup, image: Image) -> list[str]:
    """The topics of all members that exist, in order."""
    names, known = group_names(group), image.topics_by_name
    if len(names) > len(known):
        return sorted(name for name in known if name in names)
    return sorted(name for name in names if name in known)


def metadata_hash(group: ConsumerGroup, image: Image) -> int:
    """The hash of the group's topics that exist; it changes when any of them does."""
    names = existing_names(group, image)
    if not names:
        return NO_TOPICS_HASH
    digest = blake2b(digest_size=8)
    for name in names:
        topic = image.topics_by_name[name]
        digest.update(f"{name}:{len(topic.partitions)}:".encode() + topic.topic_id)
    return int.from_bytes(digest.digest(), "big", signed=True)


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
