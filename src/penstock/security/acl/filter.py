"""Filters of entries, as DescribeAcls and DeleteAcls use them. None and ANY match everything."""

from penstock.model.lazy_dataclass import dataclass
from penstock.security.acl.entry import Acl, InvalidAcl, ResourcePattern
from penstock.security.acl.words import (
    ANY_NAME,
    AclOperation,
    PatternType,
    Permission,
    ResourceType,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class AclFilter:
    """Matches the entries that agree in all that it names."""

    resource_type: ResourceType = ResourceType.ANY
    name: str | None = None
    pattern_type: PatternType = PatternType.ANY
    principal: str | None = None
    host: str | None = None
    operation: AclOperation = AclOperation.ANY
    permission: Permission = Permission.ANY

    def matches(self, acl: Acl) -> bool:
        return (
            self._matches_pattern(acl.pattern)
            and self.principal in (None, acl.principal)
            and self.host in (None, acl.host)
            and self.operation in (AclOperation.ANY, acl.operation)
            and self.permission in (Permission.ANY, acl.permission)
        )

    def _matches_pattern(self, pattern: ResourcePattern) -> bool:
        if self.resource_type not in (ResourceType.ANY, pattern.resource_type):
            return False
        if self.pattern_type not in (PatternType.ANY, PatternType.MATCH, pattern.pattern_type):
            return False
        if self.name is None:
            return True
        if self.pattern_type != PatternType.MATCH:
            return self.name == pattern.name
        if pattern.pattern_type == PatternType.PREFIXED:
            return self.name.startswith(pattern.name)
        return pattern.name in (self.name, ANY_NAME)


def check_filter(wanted: AclFilter) -> None:
    """InvalidAcl when it uses a word that nobody knows."""
    words = (wanted.resource_type, wanted.pattern_type, wanted.operation, wanted.permission)
    for word in words:
        if word.name == "UNKNOWN":
            raise InvalidAcl(f"Unknown {type(word).__name__} in a filter of ACLs")
