"""DescribeCluster: the id of the cluster, its brokers or controllers, and who leads."""

from penstock.wire.api import ApiKey
from penstock.wire.definition import (
    Message,
    Struct,
    array,
    boolean,
    int8,
    int16,
    int32,
    nullable,
    prose,
    string,
)

# Whom a request is about; it must be sent to one of them.
BROKERS = 1
CONTROLLERS = 2


class DescribeClusterRequest(Message, key=ApiKey.DESCRIBE_CLUSTER, versions="0-2", flexible_from=0):
    include_cluster_authorized_operations: bool = boolean()
    endpoint_type: int = int8("1+", default=BROKERS)
    include_fenced_brokers: bool = boolean("2+")


class DescribeClusterBroker(Struct):
    broker_id: int = int32()
    host: str = string()
    port: int = int32()
    rack: str | None = nullable(string(), default=None)
    is_fenced: bool = boolean("2+")


class DescribeClusterResponse(
    Message, key=ApiKey.DESCRIBE_CLUSTER, versions="0-2", flexible_from=0
):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = prose()
    endpoint_type: int = int8("1+", default=BROKERS)
    cluster_id: str = string()
    controller_id: int = int32(default=-1)
    brokers: list[DescribeClusterBroker] = array(DescribeClusterBroker)
    cluster_authorized_operations: int = int32(default=-(2**31))
