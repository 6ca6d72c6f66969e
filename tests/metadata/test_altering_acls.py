"""Access control entries are added and removed by decisions of the controller."""

from penstock.metadata.image.image import Image
from penstock.model.error import ErrorCode
from penstock.security.acl.entry import Acl, ResourcePattern
from penstock.security.acl.filter import AclFilter
from penstock.security.acl.messages import acl_of_match, creation_of, deletion_filter
from penstock.security.acl.words import AclOperation, PatternType, Permission, ResourceType
from penstock.wire.messages.create_acls import (
    AclCreation,
    AclCreationResult,
    CreateAclsRequest,
    CreateAclsResponse,
)
from penstock.wire.messages.delete_acls import (
    DeleteAclsFilterResult,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from rig.cluster import Cluster


def entry(name: str, operation: AclOperation = AclOperation.READ, *, prefixed: bool = False) -> Acl:
    pattern_type = PatternType.PREFIXED if prefixed else PatternType.LITERAL
    return Acl(
        pattern=ResourcePattern(ResourceType.TOPIC, name, pattern_type),
        principal="User:alice",
        operation=operation,
    )


def create(cluster: Cluster, *creations: AclCreation) -> list[AclCreationResult]:
    reply = cluster.ask(CreateAclsRequest(creations=list(creations)))
    assert isinstance(reply, CreateAclsResponse)
    return reply.results


def delete(cluster: Cluster, *wanted: AclFilter) -> list[DeleteAclsFilterResult]:
    reply = cluster.ask(DeleteAclsRequest(filters=[deletion_filter(one) for one in wanted]))
    assert isinstance(reply, DeleteAclsResponse)
    return reply.filter_results


def entries(image: Image) -> set[Acl]:
    image.check()
    return set(image.acls.values())


def test_an_added_entry_is_in_the_image() -> None:
    cluster = Cluster()
    [result] = create(cluster, creation_of(entry("orders")))
    assert result.error_code == ErrorCode.NONE
    assert entries(cluster.image) == {entry("orders")}


def test_an_entry_is_stored_once_however_often_it_is_added() -> None:
    cluster = Cluster()
    create(cluster, creation_of(entry("orders")), creation_of(entry("orders")))
    create(cluster, creation_of(entry("orders")))
    assert len(cluster.image.acls) == 1


def test_an_invalid_entry_does_not_keep_the_others_from_being_added() -> None:
    cluster = Cluster()
    bad = creation_of(entry("orders"))
    bad.principal = "alice"
    results = create(cluster, bad, creation_of(entry("payments")))
    assert [result.error_code for result in results] == [ErrorCode.INVALID_REQUEST, ErrorCode.NONE]
    assert entries(cluster.image) == {entry("payments")}


def test_a_word_that_nobody_knows_is_refused() -> None:
    bad = creation_of(entry("orders"))
    bad.operation = 99
    [result] = create(Cluster(), bad)
    assert result.error_code == ErrorCode.INVALID_REQUEST


def test_a_filter_removes_what_it_matches_and_tells_what_that_was() -> None:
    cluster = Cluster()
    orders, prefix, payments = entry("orders"), entry("ord", prefixed=True), entry("payments")
    create(cluster, *map(creation_of, (orders, prefix, payments)))
    wanted = AclFilter(
        resource_type=ResourceType.TOPIC, name="orders", pattern_type=PatternType.MATCH
    )
    [result] = delete(cluster, wanted)
    assert {acl_of_match(match) for match in result.matching_acls} == {orders, prefix}
    assert entries(cluster.image) == {payments}


def test_an_entry_that_two_filters_match_is_told_by_both() -> None:
    cluster = Cluster()
    create(cluster, creation_of(entry("orders")))
    results = delete(cluster, AclFilter(), AclFilter(operation=AclOperation.READ))
    assert [len(result.matching_acls) for result in results] == [1, 1]
    assert entries(cluster.image) == set()


def test_a_removed_entry_can_be_added_again() -> None:
    cluster = Cluster()
    create(cluster, creation_of(entry("orders")))
    delete(cluster, AclFilter())
    create(cluster, creation_of(entry("orders")))
    assert entries(cluster.image) == {entry("orders")}


def test_a_filter_with_an_unknown_word_removes_nothing() -> None:
    cluster = Cluster()
    create(cluster, creation_of(entry("orders")))
    [result] = delete(cluster, AclFilter(permission=Permission.UNKNOWN))
    assert result.error_code == ErrorCode.INVALID_REQUEST
    assert entries(cluster.image) == {entry("orders")}
