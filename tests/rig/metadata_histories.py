"""What administrators do to a cluster, as Hypothesis draws it, and a controller that did it."""

from hypothesis import strategies as st

from penstock.metadata.controller.delegation_tokens import RemoveExpiredTokens
from penstock.model.identity import NodeId
from penstock.security.principal import USER, Principal
from penstock.wire.messages import incremental_alter_configs as alter
from penstock.wire.messages.create_acls import AclCreation, CreateAclsRequest
from penstock.wire.messages.create_delegation_token import CreateDelegationTokenRequest
from penstock.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from penstock.wire.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from penstock.wire.messages.delete_topics import DeleteTopicsRequest
from rig.cluster import Cluster

NAMES = ["a", "b", "a.b", "a_b", "c"]

creations = st.tuples(st.just("create"), st.sampled_from(NAMES), st.integers(1, 4), st.booleans())
deletions = st.tuples(st.just("delete"), st.sampled_from(NAMES))
growths = st.tuples(st.just("grow"), st.sampled_from(NAMES), st.integers(1, 6))
changes = st.tuples(
    st.just("alter"),
    st.sampled_from(NAMES),
    st.sampled_from(["retention.ms", "segment.ms"]),
    st.sampled_from(["1", "2", None]),
)
restarts = st.tuples(st.just("restart"), st.integers(1, 9))
grants = st.tuples(st.just("grant"), st.sampled_from(NAMES), st.sampled_from([3, 4]))
revocations = st.tuples(st.just("revoke"), st.sampled_from([*NAMES, None]))
delegations = st.tuples(st.just("delegate"), st.sampled_from(NAMES), st.integers(1, 100))
expirations = st.tuples(st.just("expire"), st.integers(0, 100))
histories = st.lists(
    st.one_of(
        creations,
        deletions,
        growths,
        changes,
        restarts,
        grants,
        revocations,
        delegations,
        expirations,
    ),
    max_size=25,
)


def live(history: list[tuple[object, ...]]) -> Cluster:
    cluster = Cluster(delegation_token_secret_key="secret")
    for step in history:
        match step:
            case ("create", str(name), int(partitions), bool(configured)):
                config = {"retention_ms": "5"} if configured else {}
                cluster.try_create(name, partitions, **config)
            case ("delete", str(name)):
                cluster.ask(DeleteTopicsRequest(topic_names=[name]))
            case ("grow", str(name), int(count)):
                topic = CreatePartitionsTopic(name=name, count=count, assignments=None)
                cluster.ask(CreatePartitionsRequest(topics=[topic]))
            case ("alter", str(name), str(setting), str() | None as value):
                change = alter.AlterableConfig(
                    name=setting, config_operation=1 if value is None else 0, value=value
                )
                resource = alter.AlterConfigsResource(
                    resource_type=2, resource_name=name, configs=[change]
                )
                cluster.ask(alter.IncrementalAlterConfigsRequest(resources=[resource]))
            case ("grant", str(name), int(operation)):
                entry = AclCreation(
                    resource_type=2,
                    resource_name=name,
                    principal="User:alice",
                    host="*",
                    operation=operation,
                    permission_type=3,
                )
                cluster.ask(CreateAclsRequest(creations=[entry]))
            case ("revoke", str() | None as name):
                wanted = DeleteAclsFilter(
                    resource_type_filter=2,
                    resource_name_filter=name,
                    principal_filter=None,
                    host_filter=None,
                    operation=1,
                    permission_type=1,
                )
                cluster.ask(DeleteAclsRequest(filters=[wanted]))
            case ("delegate", str(name), int(lifetime_ms)):
                cluster.requester = Principal(USER, name)
                cluster.ask(CreateDelegationTokenRequest(max_lifetime_ms=lifetime_ms))
            case ("expire", int(elapsed_ms)):
                cluster.wall_ms += elapsed_ms
                cluster.ask(RemoveExpiredTokens())
            case ("restart", int(incarnation)):
                cluster.register(NodeId(1), incarnation=incarnation)
                cluster.unfence(NodeId(1))
    return cluster
