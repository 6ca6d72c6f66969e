"""What the entries say about one request, by the rules of Apache Kafka's StandardAuthorizer.

An entry applies when its pattern, its principal and its host do, and its operation is ALL, is the
one asked for, or, if the entry allows, implies it. An entry that denies beats all that allow.
Where no entry has a pattern for the resource, a setting decides; where some have and none applies,
the answer is no.

The entries are indexed by pattern and then by principal (`AclIndex`), so a decision looks at few of
them: those of the literal name, of the name "*", and of each prefix of the name that is as long as
some entry's (`PrefixLengths`). Clients choose how long their names are, and to look for every
prefix of one takes the square of its length.
"""

from collections.abc import Iterable, Iterator, Mapping

from penstock.security.acl.entry import Acl, ResourcePattern
from penstock.security.acl.words import (
    ANY_HOST,
    ANY_NAME,
    ANY_USER,
    AclOperation,
    PatternType,
    Permission,
    ResourceType,
)

AclIndex = Mapping[ResourcePattern, Mapping[str, tuple[Acl, ...]]]

# Of the patterns that are prefixes, for each type of resource.
PrefixLengths = Mapping[ResourceType, tuple[int, ...]]

# An entry that allows an operation on the right also allows the one on the left.
IMPLIED_BY: Mapping[AclOperation, frozenset[AclOperation]] = {
    AclOperation.DESCRIBE: frozenset(
        {AclOperation.READ, AclOperation.WRITE, AclOperation.DELETE, AclOperation.ALTER}
    ),
    AclOperation.DESCRIBE_CONFIGS: frozenset({AclOperation.ALTER_CONFIGS}),
}
NOT_IMPLIED: frozenset[AclOperation] = frozenset()
UNNAMED = "hardcode"  # as in Apache Kafka


def prefix_lengths(index: AclIndex) -> PrefixLengths:
    lengths: dict[ResourceType, set[int]] = {}
    for pattern in index:
        if pattern.pattern_type == PatternType.PREFIXED:
            lengths.setdefault(pattern.resource_type, set()).add(len(pattern.name))
    return {resource_type: tuple(sorted(found)) for resource_type, found in lengths.items()}


def is_allowed(
    index: AclIndex,
    lengths: PrefixLengths,
    *,
    principal: str,
    host: str,
    operation: AclOperation,
    resource_type: ResourceType,
    name: str,
    allowed_without_acls: bool,
) -> bool:
    """Whether the entries allow an operation on one resource; `lengths` are those of the index."""
    any_pattern = False
    allowed = False
    for pattern in patterns_of(resource_type, name, lengths.get(resource_type, ())):
        by_principal = index.get(pattern)
        if by_principal is None:
            continue
        any_pattern = True
        for who in (principal, ANY_USER):
            for acl in by_principal.get(who, ()):
                if acl.host in (ANY_HOST, host) and _is_about(acl, operation):
                    if acl.permission == Permission.DENY:
                        return False
                    allowed = True
    return allowed if any_pattern else allowed_without_acls


def is_allowed_somewhere(
    index: AclIndex,
    lengths: PrefixLengths,
    *,
    principal: str,
    host: str,
    operation: AclOperation,
    resource_type: ResourceType,
    allowed_without_acls: bool,
) -> bool:
    """Whether there may be a resource of the type on which the operation is allowed (KIP-679): some
    entry allows it, and no entry denies all that this one allows. Implied operations do not count.
    """
    # A resource that no entry names stands for all that nobody has thought of.
    if is_allowed(
        index,
        lengths,
        principal=principal,
        host=host,
        operation=operation,
        resource_type=resource_type,
        name=UNNAMED,
        allowed_without_acls=allowed_without_acls,
    ):
        return True
    allowed: list[ResourcePattern] = []
    denied: set[ResourcePattern] = set()
    for pattern, by_principal in index.items():
        if pattern.resource_type != resource_type:
            continue
        for who in (principal, ANY_USER):
            for acl in by_principal.get(who, ()):
                if acl.host in (ANY_HOST, host) and acl.operation in (operation, AclOperation.ALL):
                    if acl.permission == Permission.DENY:
                        denied.add(pattern)
                    else:
                        allowed.append(pattern)
    if ResourcePattern(resource_type, ANY_NAME) in denied:
        return False
    return any(not _covers(denied, pattern) for pattern in allowed)


def patterns_of(
    resource_type: ResourceType, name: str, lengths: Iterable[int]
) -> Iterator[ResourcePattern]:
    """All patterns that apply to a resource, but for prefixes of other lengths."""
    yield ResourcePattern(resource_type, name)
    if name != ANY_NAME:
        yield ResourcePattern(resource_type, ANY_NAME)
    for length in lengths:
        if length <= len(name):
            yield ResourcePattern(resource_type, name[:length], PatternType.PREFIXED)


def _is_about(acl: Acl, operation: AclOperation) -> bool:
    if acl.operation in (operation, AclOperation.ALL):
        return True
    implying = IMPLIED_BY.get(operation, NOT_IMPLIED)
    return acl.permission == Permission.ALLOW and acl.operation in implying


def _covers(denied: set[ResourcePattern], pattern: ResourcePattern) -> bool:
    """Whether everything that a pattern applies to is denied."""
    resource_type, name, pattern_type = pattern
    if pattern_type == PatternType.LITERAL and name == ANY_NAME:
        return False  # only the same pattern would cover it
    if pattern_type == PatternType.LITERAL and pattern in denied:
        return True
    return any(
        ResourcePattern(resource_type, name[:end], PatternType.PREFIXED) in denied
        for end in range(1, len(name) + 1)
    )
