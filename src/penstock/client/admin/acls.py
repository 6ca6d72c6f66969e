"""Access control entries of a cluster: described, added, removed."""

from collections.abc import Sequence

from penstock.client.network.cluster import Cluster
from penstock.client.network.errors import Refused, error_code
from penstock.model.error import ErrorCode
from penstock.security.acl.entry import Acl
from penstock.security.acl.filter import AclFilter
from penstock.security.acl.messages import (
    acl_of_match,
    acls_of_description,
    creation_of,
    deletion_filter,
    description_request,
)
from penstock.wire.messages.create_acls import CreateAclsRequest, CreateAclsResponse
from penstock.wire.messages.delete_acls import DeleteAclsRequest, DeleteAclsResponse
from penstock.wire.messages.describe_acls import DescribeAclsResponse


async def describe_acls(cluster: Cluster, wanted: AclFilter) -> list[Acl]:
    """Refused without the right to see them, or without an authorizer."""
    reply = await cluster.ask_any(description_request(wanted), DescribeAclsResponse)
    code = error_code(reply.error_code)
    if code is not ErrorCode.NONE:
        raise Refused(code, "ACLs", reply.error_message)
    return acls_of_description(reply.resources)


async def create_acls(cluster: Cluster, acls: Sequence[Acl]) -> None:
    """Refused for the first entry that is; those before and behind it may have been added."""
    request = CreateAclsRequest(creations=[creation_of(acl) for acl in acls])
    reply = await cluster.ask_controller(request, CreateAclsResponse)
    for acl, result in zip(acls, reply.results, strict=True):
        code = error_code(result.error_code)
        if code is not ErrorCode.NONE:
            raise Refused(code, f"ACL of {acl.principal} on {acl.pattern}", result.error_message)


async def delete_acls(cluster: Cluster, wanted: AclFilter) -> list[Acl]:
    """The entries that were removed."""
    request = DeleteAclsRequest(filters=[deletion_filter(wanted)])
    reply = await cluster.ask_controller(request, DeleteAclsResponse)
    [result] = reply.filter_results
    code = error_code(result.error_code)
    if code is not ErrorCode.NONE:
        raise Refused(code, "ACLs", result.error_message)
    return [acl_of_match(match) for match in result.matching_acls]
