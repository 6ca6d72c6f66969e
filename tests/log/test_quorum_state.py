"""The vote of a replica outlives every crash, in the file that Apache Kafka keeps it in."""

import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.log.quorum_state import (
    EPOCH_MAX,
    QuorumState,
    UnreadableQuorumState,
    decode_quorum_state,
    encode_quorum_state,
    read_quorum_state,
    write_quorum_state,
)
from penstock.model.identity import NodeId, id_bytes
from penstock.model.offset import LeaderEpoch
from penstock.world.disk import RealDisk
from rig.memory_disk import Crashed, MemoryDisk

DIRECTORY = "/data/__cluster_metadata-0"
DIRECTORY_ID = id_bytes("QlCV9D_HQK2nkGlSfdLsEg")
VOTED = QuorumState(leader_epoch=LeaderEpoch(7), voted=(NodeId(2), DIRECTORY_ID))
FOLLOWING = QuorumState(leader_epoch=LeaderEpoch(8), leader_id=NodeId(3))

NODE_IDS = st.integers(0, 2**31 - 1).map(NodeId)
EPOCHS = st.integers(0, EPOCH_MAX).map(LeaderEpoch)
DIRECTORY_IDS = st.none() | st.binary(min_size=16, max_size=16).filter(any)
VOTES = st.none() | st.tuples(NODE_IDS, DIRECTORY_IDS)
STATES = st.builds(
    QuorumState, leader_epoch=EPOCHS, leader_id=st.none() | NODE_IDS, voted=VOTES
) | st.builds(
    QuorumState,
    leader_epoch=EPOCHS,
    leader_id=st.none() | NODE_IDS,
    voted=st.none() | st.tuples(NODE_IDS, st.none()),
    static_voters=st.lists(NODE_IDS, max_size=5).map(tuple),
)


@pytest.mark.parametrize(
    ("state", "data"),
    [
        (
            QuorumState(leader_epoch=LeaderEpoch(1), leader_id=NodeId(1)),
            b'{"leaderId":1,"leaderEpoch":1,"votedId":-1,'
            b'"votedDirectoryId":"AAAAAAAAAAAAAAAAAAAAAA","data_version":1}',
        ),
        (
            QuorumState(
                leader_epoch=LeaderEpoch(1), leader_id=NodeId(1), static_voters=(NodeId(1),)
            ),
            b'{"clusterId":"","leaderId":1,"leaderEpoch":1,"votedId":-1,"appliedOffset":0,'
            b'"currentVoters":[{"voterId":1}],"data_version":0}',
        ),
    ],
    ids=["kraft.version 1", "static voters"],
)
def test_file_of_apache_kafka_is_read_and_written_alike(state: QuorumState, data: bytes) -> None:
    assert decode_quorum_state("quorum-state", data) == state
    assert encode_quorum_state(state) == data


@given(state=STATES)
def test_state_survives_the_file(state: QuorumState) -> None:
    assert decode_quorum_state("quorum-state", encode_quorum_state(state)) == state


@given(state=STATES, data=st.data())
def test_torn_file_is_never_taken_for_another_state(
    state: QuorumState, data: st.DataObject
) -> None:
    whole = encode_quorum_state(state)
    size = data.draw(st.integers(0, len(whole) - 1))
    with pytest.raises(UnreadableQuorumState):
        decode_quorum_state("quorum-state", whole[:size])
    with pytest.raises(UnreadableQuorumState):
        decode_quorum_state("quorum-state", whole[:size] + bytes(len(whole) - size))


@given(data=st.binary(max_size=60) | st.text(max_size=40).map(str.encode))
def test_foreign_bytes_raise_nothing_else(data: bytes) -> None:
    with pytest.raises(UnreadableQuorumState):
        decode_quorum_state("quorum-state", data)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        ("", "the file is empty"),
        ("\n", "the file is empty"),
        ('{"leaderId":1,"leaderEp', "the file is torn or not JSON"),
        ("[" * 100_000, "the file is torn or not JSON"),
        ("0\n0\n", "the file is torn or not JSON"),
        ("[]", "expected a JSON object"),
        ("{}", "data_version is missing, expected 0 or 1"),
        ('{"data_version":2}', "data_version is 2, expected 0 or 1"),
        ('{"data_version":true}', "data_version is true, expected 0 or 1"),
        ('{"data_version":[1]}', "data_version is [1], expected 0 or 1"),
        ('{"data_version":1}', "votedId is missing, expected a number from -1 on"),
        (
            '{"data_version":1,"votedId":2}',
            "votedDirectoryId is missing, expected an id in base64",
        ),
        (
            '{"data_version":1,"votedId":-1,"votedDirectoryId":"QlCV9D_HQK2nkGlSfdLsEg"}',
            "votedDirectoryId is set and votedId is not",
        ),
        (
            '{"data_version":1,"votedId":2,"votedDirectoryId":"no\\nid"}',
            'votedDirectoryId is "no\\nid", expected an id in base64',
        ),
        (
            '{"data_version":0,"votedId":2}',
            "currentVoters is missing, expected a list of voters",
        ),
        (
            '{"data_version":0,"votedId":2,"currentVoters":[{"voterId":-1}]}',
            "voterId is -1, expected a number from 0 on",
        ),
        (
            '{"data_version":0,"votedId":2,"currentVoters":[],"leaderEpoch":1.5}',
            "leaderEpoch is 1.5, expected a number from 0 on",
        ),
        (
            '{"data_version":0,"votedId":2,"currentVoters":[],"leaderEpoch":true}',
            "leaderEpoch is true, expected a number from 0 on",
        ),
        (
            '{"data_version":0,"votedId":2,"currentVoters":[],"leaderEpoch":-1}',
            "leaderEpoch is -1, expected a number from 0 on",
        ),
        (
            '{"data_version":0,"votedId":2,"currentVoters":[],"leaderEpoch":2147483647}',
            "leaderEpoch is 2147483647, expected a number up to 2146483647",
        ),
        (
            '{"data_version":0,"votedId":2,"currentVoters":[],"leaderEpoch":1,"leaderId":"'
            + "x" * 99
            + '"}',
            'leaderId is "' + "x" * 39 + "..., expected a number from -1 on",
        ),
    ],
)
def test_error_says_in_one_line_what_is_wrong(data: str, reason: str) -> None:
    with pytest.raises(UnreadableQuorumState) as error:
        decode_quorum_state("/data/quorum-state", data.encode())
    assert str(error.value) == (
        f"/data/quorum-state: {reason}; "
        "a node that is the only voter may start without the file, any other one might vote "
        "twice: replace its metadata directory as that of a lost disk"
    )


def test_directory_without_the_file_has_no_state(tmp_path: Path) -> None:
    assert read_quorum_state(RealDisk(), str(tmp_path)) is None


def test_latest_state_is_read_from_a_real_disk(tmp_path: Path) -> None:
    for state in (VOTED, FOLLOWING):
        write_quorum_state(RealDisk(), str(tmp_path), state)
        assert read_quorum_state(RealDisk(), str(tmp_path)) == state


@pytest.mark.parametrize("power_loss", [False, True], ids=["kill", "power loss"])
@pytest.mark.parametrize("seed", range(20))
def test_crash_at_any_call_leaves_the_old_or_the_new_state(power_loss: bool, seed: int) -> None:
    chance = random.Random(seed)
    found, calls, done = [], 0, False
    while not done:
        disk = MemoryDisk()
        disk.make_directory(DIRECTORY)
        disk.sync_directory("/")
        disk.sync_directory("/data")
        write_quorum_state(disk, DIRECTORY, VOTED)
        disk.faults.crash_at = disk.faults.calls + calls
        done = replaced(disk)
        left = disk.after_power_loss(chance) if power_loss else disk.after_kill()
        found.append(read_quorum_state(left, DIRECTORY))
        calls += 1
    assert set(found) == {VOTED, FOLLOWING}
    assert found[-1] == FOLLOWING  # durable once the write has returned


def replaced(disk: MemoryDisk) -> bool:
    try:
        write_quorum_state(disk, DIRECTORY, FOLLOWING)
    except Crashed:
        return False
    return True
