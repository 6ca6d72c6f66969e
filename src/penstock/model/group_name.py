"""Groups that are known by their names: those that never have members, and what they are for."""

REPLAY_GROUP = "penstock-dlq-"  # and the topic: where `penstock dlq replay` notes how far it is
QUERY_GROUP = "spark-"  # and the query: where it commits its progress (ADR 25)


def is_of_replay(name: str) -> bool:
    return name.startswith(REPLAY_GROUP)


def is_to_have_members(name: str) -> bool:
    """Whether something is wrong when nobody is a member of the group."""
    return not name.startswith((REPLAY_GROUP, QUERY_GROUP))
