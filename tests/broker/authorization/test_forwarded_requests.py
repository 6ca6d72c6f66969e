"""The controller asks for the rights of the client that a request is forwarded for."""

import asyncio
from pathlib import Path

from penstock.broker.controller.controller_link import Requester
from penstock.model.error import ErrorCode
from penstock.model.settings.authorization import STANDARD_AUTHORIZER
from penstock.security.acl.messages import creation_of
from penstock.security.acl.words import AclOperation, ResourceType
from penstock.security.principal import ANONYMOUS, Principal
from penstock.wire.messages.create_acls import CreateAclsRequest
from penstock.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from rig.authorised_node import allow
from rig.node_cluster import node_cluster

ALICE = Requester(Principal("User", "alice"), "127.0.0.1")
NODES = Requester(ANONYMOUS, "127.0.0.1")  # on listeners without authentication


def new(name: str) -> CreateTopicsRequest:
    topic = CreatableTopic(name=name, num_partitions=1, replication_factor=1)
    return CreateTopicsRequest(topics=[topic], timeout_ms=10_000)


def test_a_client_is_asked_for_its_own_rights_wherever_the_controller_runs(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with node_cluster(
            tmp_path, authorizer_class_name=STANDARD_AUTHORIZER, super_users="User:ANONYMOUS"
        ) as cluster:
            nodes = [cluster.inside(number) for number in (1, 2, 3)]
            [forwarding, *_] = [node for node in nodes if not node.local.is_active]
            assert forwarding.broker is not None
            controller = forwarding.broker.services.controller

            async def code(name: str, requester: Requester | None) -> int:
                [result] = (await controller.ask(new(name), requester=requester)).topics
                return result.error_code

            assert await code("orders", ALICE) == ErrorCode.TOPIC_AUTHORIZATION_FAILED
            assert await code("of-a-super-user", NODES) == ErrorCode.NONE
            assert await code("of-the-node-itself", None) == ErrorCode.NONE
            entry = allow("alice", AclOperation.CREATE, ResourceType.TOPIC, "orders")
            await controller.ask(CreateAclsRequest(creations=[creation_of(entry)]), requester=NODES)
            assert await code("orders", ALICE) == ErrorCode.NONE
            assert await code("secret", ALICE) == ErrorCode.TOPIC_AUTHORIZATION_FAILED

    asyncio.run(scenario())
