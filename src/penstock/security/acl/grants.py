"""The least rights for common work, as entries: to produce, consume, run Spark, operate."""

from collections.abc import Iterable

from penstock.security.acl.entry import CLUSTER, Acl, ResourcePattern
from penstock.security.acl.words import (
    ANY_HOST,
    ANY_NAME,
    AclOperation,
    PatternType,
    ResourceType,
)

TOPIC, GROUP = ResourceType.TOPIC, ResourceType.GROUP
TRANSACTIONAL_ID = ResourceType.TRANSACTIONAL_ID


def producer(
    principal: str,
    topics: Iterable[str],
    *,
    transactional_ids: Iterable[str] = (),
    host: str = ANY_HOST,
) -> list[Acl]:
    """Idempotence needs no right of its own (KIP-679). A name that ends in * is a prefix."""
    return _allow(
        principal,
        host,
        [
            *((AclOperation.WRITE, pattern(TOPIC, name)) for name in topics),
            *((AclOperation.WRITE, pattern(TRANSACTIONAL_ID, name)) for name in transactional_ids),
        ],
    )


def consumer(
    principal: str, topics: Iterable[str], groups: Iterable[str], *, host: str = ANY_HOST
) -> list[Acl]:
    return _allow(
        principal,
        host,
        [
            *((AclOperation.READ, pattern(TOPIC, name)) for name in topics),
            *((AclOperation.READ, pattern(GROUP, name)) for name in groups),
        ],
    )


def spark(
    principal: str,
    *,
    reads: Iterable[str] = (),
    writes: Iterable[str] = (),
    groups: Iterable[str] = (),
    sinks: Iterable[str] = (),
    decision_topic: str,
    host: str = ANY_HOST,
) -> list[Acl]:
    """Source, lag as a group, and the exactly-once sink: its transactional ids begin with the name
    of the sink, and its decisions are in a topic that it makes.
    """
    rights = [
        *((AclOperation.READ, pattern(TOPIC, name)) for name in reads),
        *((AclOperation.WRITE, pattern(TOPIC, name)) for name in writes),
        *((AclOperation.READ, pattern(GROUP, name)) for name in groups),
    ]
    named = list(sinks)
    for sink in named:
        ids = ResourcePattern(TRANSACTIONAL_ID, sink, PatternType.PREFIXED)
        rights += [(AclOperation.WRITE, ids), (AclOperation.TWO_PHASE_COMMIT, ids)]
    if named:
        decisions = pattern(TOPIC, decision_topic)
        rights += [
            (operation, decisions)
            for operation in (
                AclOperation.READ,
                AclOperation.WRITE,
                AclOperation.CREATE,
                AclOperation.DESCRIBE_CONFIGS,
            )
        ]
    return _allow(principal, host, rights)


def admin(principal: str, *, host: str = ANY_HOST) -> list[Acl]:
    """Everything but CLUSTER_ACTION, which is for nodes, and what has only users' data in it: who
    may alter the entries can give itself the rest.
    """
    cluster = [
        (operation, CLUSTER)
        for operation in (
            AclOperation.CREATE,
            AclOperation.ALTER,
            AclOperation.DESCRIBE,
            AclOperation.DESCRIBE_CONFIGS,
            AclOperation.ALTER_CONFIGS,
        )
    ]
    topics = [
        (operation, pattern(TOPIC, ANY_NAME))
        for operation in (
            AclOperation.CREATE,
            AclOperation.DELETE,
            AclOperation.ALTER,
            AclOperation.DESCRIBE,
            AclOperation.DESCRIBE_CONFIGS,
            AclOperation.ALTER_CONFIGS,
        )
    ]
    groups = [
        (operation, pattern(GROUP, ANY_NAME))
        for operation in (
            AclOperation.DELETE,
            AclOperation.DESCRIBE,
            AclOperation.DESCRIBE_CONFIGS,
            AclOperation.ALTER_CONFIGS,
        )
    ]
    transactions = [(AclOperation.DESCRIBE, pattern(TRANSACTIONAL_ID, ANY_NAME))]
    return _allow(principal, host, [*cluster, *topics, *groups, *transactions])


def pattern(resource_type: ResourceType, name: str) -> ResourcePattern:
    """`orders` is that one, `orders-*` every name that begins with `orders-`, `*` every one."""
    if name != ANY_NAME and name.endswith(ANY_NAME):
        return ResourcePattern(resource_type, name.removesuffix(ANY_NAME), PatternType.PREFIXED)
    return ResourcePattern(resource_type, name)


def _allow(
    principal: str, host: str, rights: Iterable[tuple[AclOperation, ResourcePattern]]
) -> list[Acl]:
    return [
        Acl(pattern=about, principal=principal, host=host, operation=operation)
        for operation, about in rights
    ]
