"""The files with which a new cluster begins, batch by batch."""

from penstock.metadata.bootstrap_files import (
    bootstrap_checkpoint,
    first_records,
    voters_checkpoint,
)
from penstock.metadata.controller.brokers import bootstrap_records
from penstock.metadata.records import decode_record
from penstock.model.settings.listener import directory_voters
from penstock.records.batch import BatchView, batches
from penstock.records.control import ControlType, control_type
from penstock.records.iterate import records_of
from penstock.wire.codec import decode_exact
from penstock.wire.messages.control_records import KRaftVersionRecord, VotersRecord
from penstock.wire.messages.metadata_records.config import ConfigRecord

NOW_MS = 1_700_000_000_000
VOTERS = "2@b:9093:MvDxzVmcRsaTz33bUuRU6A,1@[::1]:9093:JEXY6aqzQY-32P5TStzaFg"


def batches_of(data: bytes) -> list[BatchView]:
    found = list(batches(memoryview(bytearray(data))))
    assert all(batch.checksum_matches() for batch in found)
    return found


def control_types(batch: BatchView) -> list[ControlType | None]:
    assert batch.is_control
    return [control_type(record) for record in records_of(batch)]


def test_bootstrap_records_stand_between_header_and_footer() -> None:
    records = first_records(min_insync_replicas=None)
    header, data, footer = batches_of(bootstrap_checkpoint(records, now_ms=NOW_MS))
    assert control_types(header) == [ControlType.SNAPSHOT_HEADER]
    assert control_types(footer) == [ControlType.SNAPSHOT_FOOTER]
    decoded = tuple(decode_record(bytes(record.value or b"")) for record in records_of(data))
    assert decoded == bootstrap_records()
    assert [batch.base_offset for batch in (header, data, footer)] == [0, 1, 1 + len(records)]
    assert {batch.leader_epoch for batch in (header, data, footer)} == {0}


def test_in_sync_replicas_that_are_given_become_the_default_of_the_cluster() -> None:
    assert first_records(min_insync_replicas="2")[-1] == ConfigRecord(
        resource_type=4, resource_name="", name="min.insync.replicas", value="2"
    )


def test_voters_follow_the_version_of_the_quorum_in_the_first_batch() -> None:
    data = voters_checkpoint(directory_voters(VOTERS), listener="CONTROLLER", now_ms=NOW_MS)
    first, footer = batches_of(data)
    assert control_types(first) == [
        ControlType.SNAPSHOT_HEADER,
        ControlType.KRAFT_VERSION,
        ControlType.KRAFT_VOTERS,
    ]
    assert control_types(footer) == [ControlType.SNAPSHOT_FOOTER]
    assert (first.base_offset, footer.base_offset) == (0, 3)
    _, version, record = (bytes(record.value or b"") for record in records_of(first))
    assert decode_exact(KRaftVersionRecord, 0, memoryview(version), 0).k_raft_version == 1
    voters = decode_exact(VotersRecord, 0, memoryview(record), 0).voters
    assert [voter.voter_id for voter in voters] == [1, 2]
    (endpoint,) = voters[0].endpoints
    assert (endpoint.name, endpoint.host, endpoint.port) == ("CONTROLLER", "::1", 9093)
    assert voters[0].k_raft_version_feature.max_supported_version == 1
