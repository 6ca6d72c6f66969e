"""One access control entry, and the pattern of resources that it is about."""

from typing import NamedTuple, NewType

from penstock.model.lazy_dataclass import dataclass
from penstock.security.acl.words import (
    ANY_HOST,
    CLUSTER_NAME,
    AclOperation,
    PatternType,
    Permission,
    ResourceType,
)
from penstock.security.principal import InvalidPrincipal, Principal

AclId = NewType("AclId", bytes)  # 16 bytes


class InvalidAcl(ValueError):
    """An entry that cannot be added; the message is for whoever asked for it."""


class ResourcePattern(NamedTuple):
    """The resources of a type with one name, or with names that begin with it."""

    resource_type: ResourceType
    name: str
    pattern_type: PatternType = PatternType.LITERAL

    def __str__(self) -> str:
        return f"{self.resource_type.name}:{self.pattern_type.name}:{self.name}"


CLUSTER = ResourcePattern(ResourceType.CLUSTER, CLUSTER_NAME)


@dataclass(frozen=True, slots=True, kw_only=True)
class Acl:
    """Allows or denies a principal an operation on the resources of a pattern."""

    pattern: ResourcePattern
    principal: str  # such as User:alice; User:* stands for everybody
    host: str = ANY_HOST
    operation: AclOperation
    permission: Permission = Permission.ALLOW


def check_acl(acl: Acl) -> None:
    """InvalidAcl when such an entry cannot be added."""
    pattern = acl.pattern
    if pattern.pattern_type not in (PatternType.LITERAL, PatternType.PREFIXED):
        raise InvalidAcl(f"Invalid patternType {pattern.pattern_type.name}")
    if pattern.resource_type in (ResourceType.UNKNOWN, ResourceType.ANY):
        raise InvalidAcl(f"Invalid resourceType {pattern.resource_type.name}")
    if not pattern.name:
        raise InvalidAcl("Resource name should not be empty")
    if pattern.resource_type == ResourceType.CLUSTER and pattern.name != CLUSTER_NAME:
        raise InvalidAcl(f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}")
    if acl.operation in (AclOperation.UNKNOWN, AclOperation.ANY):
        raise InvalidAcl(f"Invalid operation {acl.operation.name}")
    if acl.permission not in (Permission.ALLOW, Permission.DENY):
        raise InvalidAcl(f"Invalid permissionType {acl.permission.name}")
    if not acl.host:
        raise InvalidAcl("Host should not be empty")
    try:
        Principal.parse(acl.principal)
    except InvalidPrincipal as error:
        raise InvalidAcl(f"Could not parse principal from `{acl.principal}`: {error}") from error
