"""Apache Kafka's own tool reads our metadata log, record by record."""

import json
from pathlib import Path

from penstock.broker.api.create_topics import API as CREATE_TOPICS
from penstock.broker.api.delete_topics import API as DELETE_TOPICS
from penstock.broker.api.init_producer_id import API as INIT_PRODUCER_ID
from penstock.broker.controller.controller_link import Requester
from penstock.security.principal import USER, Principal
from penstock.wire.messages.create_delegation_token import (
    CreatableRenewer,
    CreateDelegationTokenRequest,
)
from penstock.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from penstock.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from penstock.wire.messages.expire_delegation_token import ExpireDelegationTokenRequest
from penstock.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from penstock.world.real import real_world
from rig.apache_kafka.agent import KafkaAgent
from rig.control import Control, run_with, until


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
        "FEATURE_LEVEL_RECORD",
        "CONFIG_RECORD",  # min.insync.replicas of the cluster
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
        "PARTITION_CHANGE_RECORD",  # nobody led them until the broker was unfenced
        "PARTITION_CHANGE_RECORD",
        "REMOVE_TOPIC_RECORD",
    ]
    elections = [line for line in run.output.splitlines() if " LeaderChange: " in line]
    assert len(elections) == 2, "one epoch for each start"


def test_kafka_dump_log_decodes_delegation_tokens(kafka_agent: KafkaAgent, tmp_path: Path) -> None:
    async def delegate(control: Control) -> None:
        alice = Requester(Principal(USER, "alice"), "127.0.0.1")
        renewer = CreatableRenewer(principal_type=USER, principal_name="bob")
        made = await control.controller.ask(
            CreateDelegationTokenRequest(renewers=[renewer], max_lifetime_ms=-1), requester=alice
        )
        gone = ExpireDelegationTokenRequest(hmac=made.hmac, expiry_time_period_ms=-1)
        await control.controller.ask(gone, requester=alice)

    disk = real_world(inline=True).disk
    run_with(disk, delegate, path=str(tmp_path), delegation_token_secret_key="secret")
    segment = tmp_path / "__cluster_metadata-0" / f"{0:020}.log"
    run = kafka_agent.run_tool(
        "kafka-dump-log", "--cluster-metadata-decoder", "--files", str(segment)
    )
    assert run.status == 0, run.output
    payloads = [
        json.loads(line.partition(" payload: ")[2])
        for line in run.output.splitlines()
        if " payload: " in line
    ]
    made, gone = [one for one in payloads if "DELEGATION" in one["type"]]
    assert made["type"] == "DELEGATION_TOKEN_RECORD"
    assert (made["data"]["owner"], made["data"]["requester"]) == ("User:alice", "User:alice")
    assert made["data"]["renewers"] == ["User:bob"]
    assert gone["type"] == "REMOVE_DELEGATION_TOKEN_RECORD"
    assert gone["data"]["tokenId"] == made["data"]["tokenId"]


def test_kafka_dump_log_decodes_every_record_of_a_snapshot(
    kafka_agent: KafkaAgent, tmp_path: Path
) -> None:
    disk = real_world(inline=True).disk
    directory = tmp_path / "__cluster_metadata-0"

    async def live_until_snapshot(control: Control) -> None:
        await live(control)
        end_offset = control.image.offset
        await until(lambda: (latest := newest(directory)) is not None and latest[0] >= end_offset)

    run_with(
        disk,
        live_until_snapshot,
        path=str(tmp_path),
        metadata_log_max_record_bytes_between_snapshots="1",
    )
    found = newest(directory)
    assert found is not None
    run = kafka_agent.run_tool(
        "kafka-dump-log",
        "--cluster-metadata-decoder",
        "--skip-record-metadata",
        "--files",
        str(found[1]),
    )
    assert run.status == 0, run.output
    assert "isvalid: false" not in run.output
    lines = run.output.splitlines()
    payloads = [json.loads(line.partition("payload: ")[2]) for line in lines if "payload: " in line]
    assert [payload["type"] for payload in payloads] == [
        "FEATURE_LEVEL_RECORD",
        "FEATURE_LEVEL_RECORD",
        "FEATURE_LEVEL_RECORD",
        "REGISTER_BROKER_RECORD",
        "TOPIC_RECORD",
        "PARTITION_RECORD",
        "PARTITION_RECORD",
        "CONFIG_RECORD",
        "CONFIG_RECORD",
        "PRODUCER_IDS_RECORD",
    ]
    assert payloads[3]["data"]["fenced"] is False
    assert payloads[9]["data"]["nextProducerId"] == 1000
    assert f"Snapshot end offset: {found[0]}, epoch: 1" in run.output
    batches = [line for line in lines if line.startswith("baseOffset: ")]
    assert ["isControl: true" in line for line in batches] == [True, False, True]


def newest(directory: Path) -> tuple[int, Path] | None:
    """The latest snapshot, with its offset."""
    found = sorted(directory.glob("*.checkpoint"))
    return (int(found[-1].name[:20]), found[-1]) if found else None
