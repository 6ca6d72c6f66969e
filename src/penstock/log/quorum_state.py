"""`quorum-state`: what a replica of the metadata log must not forget, in Apache Kafka's format.

    {"leaderId":1,"leaderEpoch":7,"votedId":-1,"votedDirectoryId":"AAAAAAAAAAAAAAAAAAAAAA",
     "data_version":1}
    {"clusterId":"","leaderId":1,"leaderEpoch":7,"votedId":-1,"appliedOffset":0,
     "currentVoters":[{"voterId":1}],"data_version":0}

Each is one line. Version 1 belongs to kraft.version 1, where voters are in the metadata log;
version 0 belongs to static voters and repeats them. -1, and the id of zeros, stand for none.

The file is replaced as a whole (`Disk.write_whole`) and is durable once `write_quorum_state` has
returned, so a crash leaves the old or the new one. A file that cannot be read is an error and never
taken for an absent one: a voter that forgets its vote could vote twice in an epoch.
"""

import json
from typing import Any

from penstock.log import layout
from penstock.model.error import PenstockError
from penstock.model.identity import NodeId, id_bytes, id_text
from penstock.model.lazy_dataclass import dataclass
from penstock.model.limit import EPOCHS_AHEAD_MAX
from penstock.model.offset import LeaderEpoch
from penstock.world.ports import Disk

NONE = -1
NO_DIRECTORY_ID = bytes(16)
INT32_MAX = 2**31 - 1
EPOCH_MAX = INT32_MAX - EPOCHS_AHEAD_MAX  # that is believed at a start
WITH_STATIC_VOTERS, WITH_DIRECTORY_IDS = VERSIONS = (0, 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumState:
    """The latest epoch that the replica knows, with its leader and with the vote it gave there."""

    leader_epoch: LeaderEpoch
    leader_id: NodeId | None = None
    voted: tuple[NodeId, bytes | None] | None = None  # node and directory id
    static_voters: tuple[NodeId, ...] | None = None  # None with kraft.version 1

    def __post_init__(self) -> None:
        assert 0 <= self.leader_epoch <= INT32_MAX
        assert self.leader_id is None or self.leader_id >= 0
        if self.voted is not None:
            node_id, directory_id = self.voted
            assert node_id >= 0
            assert directory_id is None or len(directory_id) == 16
            assert directory_id != NO_DIRECTORY_ID


class UnreadableQuorumState(PenstockError):
    """The file is torn, or something else wrote it."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(
            f"{path}: {reason}; a node that is the only voter may start without the file, any "
            "other one might vote twice: replace its metadata directory as that of a lost disk"
        )
        self.path = path
        self.reason = reason


def read_quorum_state(disk: Disk, directory: str) -> QuorumState | None:
    """The state in the directory of the metadata log; None where no replica has run yet."""
    path = f"{directory}/{layout.QUORUM_STATE}"
    return decode_quorum_state(path, disk.read(path)) if disk.exists(path) else None


def write_quorum_state(disk: Disk, directory: str, state: QuorumState) -> None:
    """The state is on disk when this returns; DiskError: it may or may not be."""
    disk.write_whole(f"{directory}/{layout.QUORUM_STATE}", encode_quorum_state(state))


def encode_quorum_state(state: QuorumState) -> bytes:
    """As Kafka writes it. With static voters there is no room for the directory id of the vote."""
    voted_id, voted_directory_id = (NONE, None) if state.voted is None else state.voted
    fields: dict[str, object] = {
        "leaderId": NONE if state.leader_id is None else state.leader_id,
        "leaderEpoch": state.leader_epoch,
        "votedId": voted_id,
    }
    if state.static_voters is None:
        fields["votedDirectoryId"] = id_text(voted_directory_id or NO_DIRECTORY_ID)
        fields["data_version"] = WITH_DIRECTORY_IDS
    else:
        fields = {"clusterId": ""} | fields
        fields["appliedOffset"] = 0
        fields["currentVoters"] = [{"voterId": node_id} for node_id in state.static_voters]
        fields["data_version"] = WITH_STATIC_VOTERS
    return json.dumps(fields, separators=(",", ":")).encode()


def decode_quorum_state(path: str, data: bytes) -> QuorumState:
    """The state in the file; UnreadableQuorumState says in one line what is wrong with it."""
    try:
        return _state_of(_fields_of(data))
    except _Invalid as error:
        raise UnreadableQuorumState(path, str(error)) from None


class _Invalid(Exception):
    """What is wrong with the file."""


def _fields_of(data: bytes) -> dict[str, Any]:
    if not data.strip():
        raise _Invalid("the file is empty")
    try:
        fields = json.loads(data.decode())
    except (ValueError, RecursionError):
        raise _Invalid("the file is torn or not JSON") from None
    if not isinstance(fields, dict):
        raise _Invalid("expected a JSON object")
    return fields


def _state_of(fields: dict[str, Any]) -> QuorumState:
    version = fields.get("data_version")
    if isinstance(version, bool) or version not in VERSIONS:
        raise _Invalid(f"data_version is {_shown(version)}, expected 0 or 1")
    voted_id = _node_id(fields, "votedId")
    directory_id, static_voters = None, None
    if version == WITH_DIRECTORY_IDS:
        directory_id = _directory_id(fields)
        if voted_id is None and directory_id is not None:
            raise _Invalid("votedDirectoryId is set and votedId is not")
    else:
        static_voters = _static_voters(fields)
    return QuorumState(
        leader_epoch=_epoch(fields),
        leader_id=_node_id(fields, "leaderId"),
        voted=None if voted_id is None else (voted_id, directory_id),
        static_voters=static_voters,
    )


def _static_voters(fields: dict[str, Any]) -> tuple[NodeId, ...]:
    voters = fields.get("currentVoters")
    if not isinstance(voters, list) or not all(isinstance(voter, dict) for voter in voters):
        raise _Invalid(f"currentVoters is {_shown(voters)}, expected a list of voters")
    return tuple(NodeId(_number(voter, "voterId", at_least=0)) for voter in voters)


def _epoch(fields: dict[str, Any]) -> LeaderEpoch:
    """An epoch that comes by elections. Other replicas would believe one that is close to the last
    there can be, and soon nobody could be elected any more.
    """
    epoch = _number(fields, "leaderEpoch", at_least=0)
    if epoch > EPOCH_MAX:
        raise _Invalid(f"leaderEpoch is {epoch}, expected a number up to {EPOCH_MAX}")
    return LeaderEpoch(epoch)


def _node_id(fields: dict[str, Any], name: str) -> NodeId | None:
    number = _number(fields, name, at_least=NONE)
    return None if number == NONE else NodeId(number)


def _number(fields: dict[str, Any], name: str, *, at_least: int) -> int:
    number = fields.get(name)
    if type(number) is not int or not at_least <= number <= INT32_MAX:
        raise _Invalid(f"{name} is {_shown(number)}, expected a number from {at_least} on")
    return number


def _directory_id(fields: dict[str, Any]) -> bytes | None:
    text = fields.get("votedDirectoryId")
    try:
        raw = id_bytes(text) if isinstance(text, str) else None
    except ValueError:
        raw = None
    if raw is None or id_text(raw) != text:
        raise _Invalid(f"votedDirectoryId is {_shown(text)}, expected an id in base64")
    return None if raw == NO_DIRECTORY_ID else raw


def _shown(value: object) -> str:
    """A value of the file in a message: short, on one line."""
    if value is None:
        return "missing"
    text = json.dumps(value)
    return text if len(text) <= 40 else f"{text[:40]}..."
