"""Apache Kafka's rules, told as plainly as can be: a walk over all entries."""

from collections.abc import Iterable

from penstock.security.acl.entry import Acl
from penstock.security.acl.words import AclOperation, PatternType, Permission, ResourceType

IMPLYING = {
    AclOperation.DESCRIBE: {
        AclOperation.READ,
        AclOperation.WRITE,
        AclOperation.DELETE,
        AclOperation.ALTER,
    },
    AclOperation.DESCRIBE_CONFIGS: {AclOperation.ALTER_CONFIGS},
}


def naive_may(
    acls: Iterable[Acl],
    *,
    principal: str,
    host: str,
    operation: AclOperation,
    resource_type: ResourceType,
    name: str,
    everyone: bool,
) -> bool:
    of_resource = [acl for acl in acls if _has_pattern_for(acl, resource_type, name)]
    if not of_resource:
        return everyone
    of_client = [
        acl
        for acl in of_resource
        if acl.principal in (principal, "User:*") and acl.host in (host, "*")
    ]
    denied = {acl.operation for acl in of_client if acl.permission == Permission.DENY}
    allowed = {acl.operation for acl in of_client if acl.permission == Permission.ALLOW}
    if denied & {operation, AclOperation.ALL}:
        return False
    return bool(allowed & ({operation, AclOperation.ALL} | IMPLYING.get(operation, set())))


def _has_pattern_for(acl: Acl, resource_type: ResourceType, name: str) -> bool:
    pattern = acl.pattern
    if pattern.resource_type != resource_type:
        return False
    if pattern.pattern_type == PatternType.PREFIXED:
        return name.startswith(pattern.name)
    return pattern.name in (name, "*")
