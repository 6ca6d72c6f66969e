"""Apache Kafka's own tool reads our metadata log, record by record."""

import json
from pathlib import Path

from penstock.broker.api.create_topics import API as CREATE_TOPICS
from penstock.broker.api.delete_topics import API as DELETE_TOPICS
from penstock.broker.api.init_producer_id import API as INIT_PRODUCER_ID
from penstock.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from penstock.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from penstock.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from penstock.world.real import real_world
from rig.apache_kafka.agent import KafkaAgent
from rig.control import Control, run_with


async def live(control: Control) -> None:
    topic = CreatableTopic(
        name="orders",
        num_partitions=2,
        replication_factor=1,
        configs=[CreatableTopicConfig(name="retention.ms", value="5000")],
    )
    await control.ask(CREATE_TOPICS, CreateTopicsRequest(topics=[topic]), CreateTopicsResponse)
    await control.ask(
        INIT_PRODUCER_ID, InitProducerIdRequest(transactional_id=None), InitProducerIdResponse
    )


async def delete(control: Control) -> None:
    request = DeleteTopicsRequest(topic_names=["orders"], timeout_ms=60_000)
    await control.ask(DELETE_TOPICS, request, DeleteTopicsResponse, version=5)


def test_kafka_dump_log_decodes_every_metadata_record(
    kafka_agent: KafkaAgent, tmp_path: Path
) -> None:
    disk = real_world(inline=True).disk
    run_with(disk, live, path=str(tmp_path))
    run_with(disk, delete, path=str(tmp_path))
    segment = tmp_path / "__cluster_metadata-0" / f"{0:020}.log"
    run = kafka_agent.run_tool(
        "kafka-dump-log", "--cluster-metadata-decoder", "--files", str(segment)
    )
    assert run.status == 0, run.output
    assert "isvalid: false" not in run.output
    payloads = [
        json.loads(line.partition(" payload: ")[2])
        for line in run.output.splitlines()
        if " payload: " in line
    ]
    assert [payload["type"] for payload in payloads] == [
        "FEATURE_LEVEL_RECORD",
        "FEATURE_LEVEL_RECORD",
        "REGISTER_BROKER_RECORD",
        "BROKER_REGISTRATION_CHANGE_RECORD",
        "TOPIC_RECORD",
        "CONFIG_RECORD",
        "PARTITION_RECORD",
        "PARTITION_RECORD",
        "PRODUCER_IDS_RECORD",
        "PARTITION_CHANGE_RECORD",
        "PARTITION_CHANGE_RECORD",
        "REGISTER_BROKER_RECORD",
        "BROKER_REGISTRATION_CHANGE_RECORD",
        "REMOVE_TOPIC_RECORD",
    ]
    elections = [line for line in run.output.splitlines() if " LeaderChange: " in line]
    assert len(elections) == 2, "one epoch for each start"
