"""DeleteAcls: removes the access control entries that filters match."""

from penstock.wire.api import ApiKey
from penstock.wire.definition import (
    Message,
    Struct,
    array,
    int8,
    int16,
    int32,
    nullable,
    prose,
    string,
)


class DeleteAclsFilter(Struct):
    resource_type_filter: int = int8()
    resource_name_filter: str | None = nullable(string())
    pattern_type_filter: int = int8("1+", default=3)
    principal_filter: str | None = nullable(string())
    host_filter: str | None = nullable(string())
    operation: int = int8()
    permission_type: int = int8()


class DeleteAclsRequest(Message, key=ApiKey.DELETE_ACLS, versions="1-3", flexible_from=2):
    filters: list[DeleteAclsFilter] = array(DeleteAclsFilter)


class DeleteAclsMatchingAcl(Struct):
    error_code: int = int16()
    error_message: str | None = prose()
    resource_type: int = int8()
    resource_name: str = string()
    pattern_type: int = int8("1+", default=3)
    principal: str = string()
    host: str = string()
    operation: int = int8()
    permission_type: int = int8()


class DeleteAclsFilterResult(Struct):
    error_code: int = int16()
    error_message: str | None = prose()
    matching_acls: list[DeleteAclsMatchingAcl] = array(DeleteAclsMatchingAcl)


class DeleteAclsResponse(Message, key=ApiKey.DELETE_ACLS, versions="1-3", flexible_from=2):
    throttle_time_ms: int = int32()
    filter_results: list[DeleteAclsFilterResult] = array(DeleteAclsFilterResult)
