"""DescribeAcls: the access control entries that a filter matches, by resource."""

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


class DescribeAclsRequest(Message, key=ApiKey.DESCRIBE_ACLS, versions="1-3", flexible_from=2):
    resource_type_filter: int = int8()
    resource_name_filter: str | None = nullable(string())
    pattern_type_filter: int = int8("1+", default=3)
    principal_filter: str | None = nullable(string())
    host_filter: str | None = nullable(string())
    operation: int = int8()
    permission_type: int = int8()


class AclDescription(Struct):
    principal: str = string()
    host: str = string()
    operation: int = int8()
    permission_type: int = int8()


class DescribeAclsResource(Struct):
    resource_type: int = int8()
    resource_name: str = string()
    pattern_type: int = int8("1+", default=3)
    acls: list[AclDescription] = array(AclDescription)


class DescribeAclsResponse(Message, key=ApiKey.DESCRIBE_ACLS, versions="1-3", flexible_from=2):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = prose()
    resources: list[DescribeAclsResource] = array(DescribeAclsResource)
