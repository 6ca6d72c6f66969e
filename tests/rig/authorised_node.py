"""A node with an authorizer, and conversations with it as any principal.

Its listener is plain text, so everyone is anonymous there. A conversation is given its principal as
authentication would give it: in the identity of its connection.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

from penstock.model.error import ErrorCode
from penstock.model.settings.authorization import STANDARD_AUTHORIZER
from penstock.node.build import OpenNode
from penstock.security.acl.entry import Acl, ResourcePattern
from penstock.security.acl.filter import AclFilter
from penstock.security.acl.messages import creation_of, deletion_filter
from penstock.security.acl.words import AclOperation, PatternType, Permission, ResourceType
from penstock.security.principal import Principal
from penstock.wire.messages.api_versions import ApiVersionsRequest
from penstock.wire.messages.create_acls import CreateAclsRequest
from penstock.wire.messages.delete_acls import DeleteAclsRequest
from rig.dialogue import Dialogue
from rig.running_node import RunningNode, running_node

ADMIN = "admin"


class AuthorisedNode:
    def __init__(self, node: RunningNode) -> None:
        self.node = node
        self.admin = self.dialogue(ADMIN)

    def dialogue(self, name: str) -> Dialogue:
        """A conversation as `User:name`."""
        # By IPv4, on a listener of [::] too.
        talk = Dialogue(f"127.0.0.1:{self.node.node.addresses[0].port}", "unused")
        talk.exchange(ApiVersionsRequest(), version=0)  # the node has the connection now
        port = talk._socket.getsockname()[1]
        self.node.run(self._identify(port, Principal("User", name)))
        return talk

    async def _identify(self, port: int, principal: Principal) -> None:
        opened = cast(OpenNode, self.node.node._running)
        assert opened.broker is not None
        [connection] = [
            one for one in opened.broker.server.connections if one.stream.peer.port == port
        ]
        connection.identity.principal = principal

    def grant(self, *acls: Acl) -> None:
        reply = self.admin.exchange(
            CreateAclsRequest(creations=[creation_of(acl) for acl in acls]), version=3
        )
        assert [result.error_code for result in reply.results] == [ErrorCode.NONE] * len(acls)

    def revoke_all(self) -> None:
        reply = self.admin.exchange(
            DeleteAclsRequest(filters=[deletion_filter(AclFilter())]), version=3
        )
        assert [result.error_code for result in reply.filter_results] == [ErrorCode.NONE]

    def close(self) -> None:
        self.admin.close()


@contextmanager
def authorised_node(data: Path, **settings: str) -> Iterator[AuthorisedNode]:
    """`User:admin` may do everything."""
    given = {
        "authorizer_class_name": STANDARD_AUTHORIZER,
        "super_users": f"User:{ADMIN}",
        "offsets_topic_num_partitions": "1",
        "transaction_state_log_num_partitions": "1",
        **settings,
    }
    with running_node(data, **given) as node:
        guarded = AuthorisedNode(node)
        try:
            yield guarded
        finally:
            guarded.close()


def allow(
    who: str,
    operation: AclOperation,
    resource_type: ResourceType,
    name: str,
    **more: Any,
) -> Acl:
    """`prefixed`, `deny` and `host` are the other words of an entry."""
    pattern_type = PatternType.PREFIXED if more.get("prefixed") else PatternType.LITERAL
    return Acl(
        pattern=ResourcePattern(resource_type, name, pattern_type),
        principal=f"User:{who}",
        host=more.get("host", "*"),
        operation=operation,
        permission=Permission.DENY if more.get("deny") else Permission.ALLOW,
    )
