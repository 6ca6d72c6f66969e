"""Which topics the members of a classic group read, if that is known."""

from penstock.groups.classic.group import ClassicGroup
from penstock.model.limit import SUBSCRIBED_NAMES_OF_GROUP_MAX
from penstock.wire.embedded import VERSION_BYTES, read_embedded
from penstock.wire.errors import MalformedMessage
from penstock.wire.messages.consumer_protocol import ConsumerProtocolSubscription

# All versions begin with the topics and the user's data. What follows them is of no interest here:
# members may tell of very many partitions that they own.
FIRST_VERSION = ConsumerProtocolSubscription.VERSIONS.min
COUNT_END = VERSION_BYTES + 4  # the number of topics stands before them, in four bytes


def subscribed_topics(group: ClassicGroup) -> frozenset[str] | None:
    """None when it is unknown: another protocol type, no protocol chosen, unreadable bytes, or more
    names, those of each member counted, than are read in one step.
    """
    if not group.uses_consumer_protocol:
        return None
    if not group.members:
        return frozenset()
    if group.protocol_name is None:
        return None
    topics: set[str] = set()
    names_left = SUBSCRIBED_NAMES_OF_GROUP_MAX
    for member in group.members.values():
        metadata = member.metadata(group.protocol_name)
        names_left -= int.from_bytes(metadata[VERSION_BYTES:COUNT_END], "big")
        if names_left < 0:
            return None
        try:
            subscription = read_embedded(
                ConsumerProtocolSubscription, metadata, version_max=FIRST_VERSION
            )
        except MalformedMessage:
            return None
        topics.update(subscription.topics)
    return frozenset(topics)
