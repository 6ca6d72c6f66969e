"""Which topics the members of a classic group read, if that is known."""

from penstock.groups.classic.group import ClassicGroup
from penstock.wire.embedded import read_embedded
from penstock.wire.errors import MalformedMessage
from penstock.wire.messages.consumer_protocol import ConsumerProtocolSubscription


def subscribed_topics(group: ClassicGroup) -> frozenset[str] | None:
    """None when it is unknown: another protocol type, no protocol chosen, or unreadable bytes."""
    if not group.uses_consumer_protocol:
        return None
    if not group.members:
        return frozenset()
    if group.protocol_name is None:
        return None
    topics: set[str] = set()
    for member in group.members.values():
        try:
            subscription = read_embedded(
                ConsumerProtocolSubscription, member.metadata(group.protocol_name)
            )
        except MalformedMessage:
            return None
        topics.update(subscription.topics)
    return frozenset(topics)
