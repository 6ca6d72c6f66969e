"""The authorizer of one node: decides by the current entries, and remembers what it decided.

    access = authorizer.access(principal, host, image.acls_by_pattern)
    access.may(AclOperation.ALTER, ResourceType.TOPIC, "orders")
    access.may_write("orders")

All decisions are forgotten when the entries change, which shows by another index, and when they are
too many; those about long names are not remembered. A connection keeps its access and asks
`is_current` before each use, which compares identities alone (`broker/network/identity`). Whether a
topic may be written and read is asked for every batch, so these two are remembered by the name of
the topic alone: no key is made to look one up.
"""

from typing import Final

from penstock.model.limit import REMEMBERED_DECISIONS_MAX, REMEMBERED_NAME_MAX
from penstock.security.acl.rules import (
    AclIndex,
    PrefixLengths,
    is_allowed,
    is_allowed_somewhere,
    prefix_lengths,
)
from penstock.security.acl.words import CLUSTER_NAME, OPERATIONS, AclOperation, ResourceType
from penstock.security.principal import Principal

DECISIONS_MAX: Final = REMEMBERED_DECISIONS_MAX
NAME_MAX: Final = REMEMBERED_NAME_MAX
EVERYWHERE: Final = ""  # no resource has this name: stands for the question about all of a type


class Authorizer:
    """`super_users` may do everything, whatever the entries say."""

    def __init__(
        self, *, super_users: frozenset[Principal], allow_everyone_if_no_acl_found: bool
    ) -> None:
        self._super_users = super_users
        self._allowed_without_acls = allow_everyone_if_no_acl_found
        self._memory = Memory({})  # of no image: the first one has another index

    def is_current(self, access: "Access", index: AclIndex) -> bool:
        """Whether an access still says what a client may do, by these entries."""
        memory = self._memory
        return access.memory is memory and memory.index is index and memory.count <= DECISIONS_MAX

    def access(self, principal: Principal, host: str, index: AclIndex) -> "Access":
        """What a client may do, by these entries."""
        memory = self._memory
        if memory.index is not index or memory.count > DECISIONS_MAX:
            memory.forget()
            memory = self._memory = Memory(index)
        by_host = memory.known.get(principal)
        access = None if by_host is None else by_host.get(host)
        if access is None:
            access = Access(
                memory,
                str(principal),
                host,
                is_super=principal in self._super_users,
                allowed_without_acls=self._allowed_without_acls,
            )
            memory.known.setdefault(principal, {})[host] = access
            memory.count += 1
        return access


class Memory:
    """What was decided by the entries of one moment."""

    __slots__ = ("_lengths", "count", "index", "known")

    def __init__(self, index: AclIndex) -> None:
        self.index = index
        self._lengths: PrefixLengths | None = None
        self.known: dict[Principal, dict[str, Access]] = {}  # by host
        self.count = 0  # of accesses and of decisions

    def lengths(self) -> PrefixLengths:
        if self._lengths is None:
            self._lengths = prefix_lengths(self.index)
        return self._lengths

    def forget(self) -> None:
        """Connections that ask for nothing more keep their access, but none of its decisions."""
        for by_host in self.known.values():
            for access in by_host.values():
                access.forget()


class Access:
    """What one principal may do from one host, by the entries of one moment."""

    __slots__ = (
        "_allowed_without_acls",
        "_decided",
        "_host",
        "_may_read",
        "_may_write",
        "_principal",
        "is_super",
        "memory",
    )

    def __init__(
        self,
        memory: Memory,
        principal: str,
        host: str,
        *,
        is_super: bool,
        allowed_without_acls: bool,
    ) -> None:
        self.is_super = is_super
        self.memory = memory
        self._principal = principal
        self._host = host
        self._allowed_without_acls = allowed_without_acls
        self._decided: dict[tuple[AclOperation, ResourceType, str], bool] = {}
        self._may_read: dict[str, bool] = {}
        self._may_write: dict[str, bool] = {}

    def may_read(self, topic: str) -> bool:
        """The same as `may(AclOperation.READ, ResourceType.TOPIC, topic)`, for less."""
        decided = self._may_read.get(topic)
        if decided is None:
            decided = self.may(AclOperation.READ, ResourceType.TOPIC, topic)
            if not self.is_super and len(topic) <= NAME_MAX:
                self._may_read[topic] = decided
                self.memory.count += 1
        return decided

    def may_write(self, topic: str) -> bool:
        """The same as `may(AclOperation.WRITE, ResourceType.TOPIC, topic)`, for less."""
        decided = self._may_write.get(topic)
        if decided is None:
            decided = self.may(AclOperation.WRITE, ResourceType.TOPIC, topic)
            if not self.is_super and len(topic) <= NAME_MAX:
                self._may_write[topic] = decided
                self.memory.count += 1
        return decided

    def may(self, operation: AclOperation, resource_type: ResourceType, name: str) -> bool:
        """Whether an operation on one resource is allowed."""
        if self.is_super:
            return True
        asked = (operation, resource_type, name)
        decided = self._decided.get(asked)
        if decided is None:
            decided = self._remember(asked, self.decide(operation, resource_type, name))
        return decided

    def decide(self, operation: AclOperation, resource_type: ResourceType, name: str) -> bool:
        """The same as `may`, without remembering: for questions about very many resources, which
        would drive out what is asked for often.
        """
        return self.is_super or is_allowed(
            self.memory.index,
            self.memory.lengths(),
            principal=self._principal,
            host=self._host,
            operation=operation,
            resource_type=resource_type,
            name=name,
            allowed_without_acls=self._allowed_without_acls,
        )

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
                    self.memory.index,
                    self.memory.lengths(),
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

    def forget(self) -> None:
        """What is asked again is decided again, by the same entries."""
        self._decided.clear()
        self._may_read.clear()
        self._may_write.clear()

    def _remember(self, asked: tuple[AclOperation, ResourceType, str], decided: bool) -> bool:
        if len(asked[2]) <= NAME_MAX:
            self._decided[asked] = decided
            self.memory.count += 1
        return decided
