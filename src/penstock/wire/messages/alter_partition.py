"""AlterPartition: the leader of a partition asks the controller to change its in-sync replicas.

Version 2 names topics by their ids (KIP-841). Version 3 names replicas with their broker epochs, so
that one which has restarted meanwhile is not added (KIP-903).
"""

from penstock.wire.api import ApiKey
from penstock.wire.definition import Message, Struct, array, int8, int16, int32, int64, uuid


class BrokerState(Struct):
    broker_id: int = int32()
    broker_epoch: int = int64(default=-1)


class AlterPartitionData(Struct):
    partition_index: int = int32()
    leader_epoch: int = int32()
    new_isr: list[int] = array(int32(), "0-2")
    new_isr_with_epochs: list[BrokerState] = array(BrokerState, "3+")
    leader_recovery_state: int = int8("1+")  # 1 while the leader recovers from an unclean election
    partition_epoch: int = int32()


class AlterPartitionTopic(Struct):
    topic_id: bytes = uuid("2+")
    partitions: list[AlterPartitionData] = array(AlterPartitionData)


class AlterPartitionRequest(Message, key=ApiKey.ALTER_PARTITION, versions="2-3", flexible_from=0):
    broker_id: int = int32()
    broker_epoch: int = int64(default=-1)
    topics: list[AlterPartitionTopic] = array(AlterPartitionTopic)


class AlteredPartition(Struct):
    partition_index: int = int32()
    error_code: int = int16()
    leader_id: int = int32()
    leader_epoch: int = int32()
    isr: list[int] = array(int32())
    leader_recovery_state: int = int8("1+")
    partition_epoch: int = int32()


class AlteredTopic(Struct):
    topic_id: bytes = uuid("2+")
    partitions: list[AlteredPartition] = array(AlteredPartition)


class AlterPartitionResponse(Message, key=ApiKey.ALTER_PARTITION, versions="2-3", flexible_from=0):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    topics: list[AlteredTopic] = array(AlteredTopic)
