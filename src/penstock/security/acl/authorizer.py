"""The authorizer of one node: decides by the current entries, and remembers what it decided.

    access = authorizer.access(principal, host, image.acls_by_pattern)
    access.may(AclOperation.ALTER, ResourceType.TOPIC, "orders")
    access.may_write("orders")

A decision that was made before costs two look-ups: of the client and of what it asks. All of them
are forgotten when the entries change, which shows by another index, and when they are too many.
Whether a topic may be written and read is asked for every batch, so these two have memories of
their own, by its name alone: no key is made to look one up.
"""

from typing import Final

from penstock.model.limit import REMEMBERED_DECISIONS_MAX
from penstock.security.acl.rules import AclIndex, is_allowed, is_allowed_somewhere
from penstock.security.acl.words import CLUSTER_NAME, OPERATIONS, AclOperation, ResourceType
from penstock.security.principal import Principal

DECISIONS_MAX: Final = REMEMBERED_DECISIONS_MAX
EVERYWHERE: Final = ""  # no resource has this name: stands for the question about all of a type


class Authorizer:
    """`super_users` may do everything, whatever the entries say."""

    def __init__(
        self, *, super_users: frozenset[Principal], allow_everyone_if_no_acl_found: bool
    ) -> None:
        self._super_users = super_users
        self._allowed_without_acls = allow_everyone_if_no_acl_found
        self._index: AclIndex | None = None
        self._known: dict[Principal, dict[str, Access]] = {}  # by host
        # Of the last request: the next one is often of the same connection.
        self._last_principal: Principal | None = None
        self._last_host = ""
        self._last_access: Access | None = None
        self._remembered = 0

    def access(self, principal: Principal, host: str, index: AclIndex) -> "Access":
        """What a client may do, by these entries."""
        if index is not self._index or self._remembered > DECISIONS_MAX:
            self._index = index
            self._known = {}
            self._remembered = 0
            self._last_access = None
        last = self._last_access
        if last is not None and principal is self._last_principal and host is self._last_host:
            return last
        by_host = self._known.get(principal)
        access = None if by_host is None else by_host.get(host)
        if access is None:
            access = self._begin(principal, host, index)
        self._last_principal, self._last_host, self._last_access = principal, host, access
        return access

    def _begin(self, principal: Principal, host: str, index: AclIndex) -> "Access":
        access = Access(
            self,
            str(principal),
            host,
            index,
            is_super=principal in self._super_users,
            allowed_without_acls=self._allowed_without_acls,
        )
        self._known.setdefault(principal, {})[host] = access
        self.remember_one_more()
        return access

    def remember_one_more(self) -> None:
        self._remembered += 1


class Access:
    """What one principal may do from one host, by the entries of one moment."""

    __slots__ = (
        "_allowed_without_acls",
        "_authorizer",
        "_decided",
        "_host",
        "_index",
        "_may_read",
        "_may_write",
        "_principal",
        "is_super",
    )

    def __init__(
        self,
        authorizer: Authorizer,
        principal: str,
        host: str,
        index: AclIndex,
        *,
        is_super: bool,
        allowed_without_acls: bool,
    ) -> None:
        self.is_super = is_super
        self._authorizer = authorizer
        self._principal = principal
        self._host = host
        self._index = index
        self._allowed_without_acls = allowed_without_acls
        self._decided: dict[tuple[AclOperation, ResourceType, str], bool] = {}
        self._may_read: dict[str, bool] = {}
        self._may_write: dict[str, bool] = {}

    def may_read(self, topic: str) -> bool:
        """The same as `may(AclOperation.READ, ResourceType.TOPIC, topic)`, for less."""
        decided = self._may_read.get(topic)
        if decided is None:
            decided = self.may(AclOperation.READ, ResourceType.TOPIC, topic)
            if not self.is_super:
                self._may_read[topic] = decided
                self._authorizer.remember_one_more()
        return decided

    def may_write(self, topic: str) -> bool:
        """The same as `may(AclOperation.WRITE, ResourceType.TOPIC, topic)`, for less."""
        decided = self._may_write.get(topic)
        if decided is None:
            decided = self.may(AclOperation.WRITE, ResourceType.TOPIC, topic)
            if not self.is_super:
                self._may_write[topic] = decided
                self._authorizer.remember_one_more()
        return decided

    def may(self, operation: AclOperation, resource_type: ResourceType, name: str) -> bool:
        """Whether an operation on one resource is allowed."""
        if self.is_super:
            return True
        asked = (operation, resource_type, name)
        decided = self._decided.get(asked)
        if decided is None:
            decided = self._remember(
                asked,
                is_allowed(
                    self._index,
                    principal=self._principal,
                    host=self._host,
                    operation=operation,
                    resource_type=resource_type,
                    name=name,
                    allowed_without_acls=self._allowed_without_acls,
                ),
            )
        return decided

    def may_cluster(self, operation: AclOperation) -> bool:
        """Whether an operation on the cluster is allowed."""
        return self.may(operation, ResourceType.CLUSTER, CLUSTER_NAME)

    def may_somewhere(self, operation: AclOperation, resource_type: ResourceType) -> bool:
        """Whether the operation may be allowed on some resource of the type."""
        if self.is_super:
            return True
        asked = (operation, resource_type, EVERYWHERE)
        decided = self._decided.get(asked)
        if decided is None:
            decided = self._remember(
                asked,
                is_allowed_somewhere(
                    self._index,
                    principal=self._principal,
                    host=self._host,
                    operation=operation,
                    resource_type=resource_type,
                    allowed_without_acls=self._allowed_without_acls,
                ),
            )
        return decided

    def operations(self, resource_type: ResourceType, name: str) -> int:
        """All operations that are allowed on a resource, as a bit field of their numbers."""
        return sum(
            1 << operation
            for operation in OPERATIONS[resource_type]
            if self.may(operation, resource_type, name)
        )

    def _remember(self, asked: tuple[AclOperation, ResourceType, str], decided: bool) -> bool:
        self._decided[asked] = decided
        self._authorizer.remember_one_more()
        return decided
