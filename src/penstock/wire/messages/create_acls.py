"""CreateAcls: adds access control entries."""

from penstock.wire.api import ApiKey
from penstock.wire.definition import Message, Struct, array, int8, int16, int32, prose, string


class AclCreation(Struct):
    resource_type: int = int8()
    resource_name: str = string()
    resource_pattern_type: int = int8("1+", default=3)
    principal: str = string()
    host: str = string()
    operation: int = int8()
    permission_type: int = int8()


class CreateAclsRequest(Message, key=ApiKey.CREATE_ACLS, versions="1-3", flexible_from=2):
    creations: list[AclCreation] = array(AclCreation)


class AclCreationResult(Struct):
    error_code: int = int16()
    error_message: str | None = prose()


class CreateAclsResponse(Message, key=ApiKey.CREATE_ACLS, versions="1-3", flexible_from=2):
    throttle_time_ms: int = int32()
    results: list[AclCreationResult] = array(AclCreationResult)
