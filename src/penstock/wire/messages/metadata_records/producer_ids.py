"""A block of producer ids was handed to a broker."""

from penstock.wire.definition import Message, int32, int64


class ProducerIdsRecord(Message, key=15, versions="0", flexible_from=0):
    broker_id: int = int32()
    broker_epoch: int = int64(default=-1)
    next_producer_id: int = int64()
