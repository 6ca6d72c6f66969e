"""Formatting: what makes directories those of one node of one cluster. `plan_format` decides,
`write_format` writes.

    every directory          meta.properties: whose it is, and its own id
    the metadata directory   bootstrap.checkpoint: the first records of a new cluster
                             the snapshot at offset 0, if the voters of `kraft.version` 1 are given

`meta.properties` is written last: what a crash leaves behind is not formatted yet, and formatting
goes over it again.

A voter that has lost its disk must not come back as a new one: it may have given its vote to one
candidate and would give it to another. So a metadata directory is not made a voter's if another
directory shows that the node is not new.
"""

from collections.abc import Callable, Mapping

from penstock.log import layout
from penstock.log.checkpoint import DirectoryIdentity
from penstock.log.directory import make_lasting, write_identity
from penstock.metadata.bootstrap_files import (
    BOOTSTRAP_FILE,
    VOTERS_FILE,
    bootstrap_checkpoint,
    first_records,
    voters_checkpoint,
)
from penstock.model.error import PenstockError
from penstock.model.identity import METADATA_TOPIC, TopicPartition, random_id
from penstock.model.lazy_dataclass import dataclass
from penstock.model.settings.cluster_node import ClusterNode, Role
from penstock.model.settings.listener import ANY_HOSTS, DirectoryVoter
from penstock.node.directory_owners import cluster_of
from penstock.wire.messages.metadata_records.user_scram_credential import (
    UserScramCredentialRecord,
)
from penstock.world.ports import Disk

METADATA_LOG = layout.partition_directory(TopicPartition(METADATA_TOPIC, 0))


class FormatRefused(PenstockError):
    """What was asked for cannot be formatted so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FormatRequest:
    """What is to be formatted, for which cluster."""

    node: ClusterNode
    cluster_id: str
    log_directories: tuple[str, ...]
    metadata_directory: str
    voters: tuple[DirectoryVoter, ...] = ()  # those of a new cluster with `kraft.version` 1
    ignore_formatted: bool = False
    min_insync_replicas: str | None = None  # as the settings give it
    users: tuple[UserScramCredentialRecord, ...] = ()  # that can log in from the first start on

    @property
    def directories(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((self.metadata_directory, *self.log_directories)))

    @property
    def makes_a_voter(self) -> bool:
        """Whether the node is to vote with others, from its first start on."""
        listed = {voter.node_id for voter in self.voters} | self.node.quorum.static_voters.keys()
        return self.node.node_id in listed and len(listed) > 1


@dataclass(frozen=True, slots=True, kw_only=True)
class FormattedDirectory:
    """One directory, and what is to be in it."""

    path: str
    identity: DirectoryIdentity
    files: Mapping[str, bytes]  # by name, from the directory on


def standalone_voter(
    node: ClusterNode, *, host_name: str, random_bytes: Callable[[int], bytes]
) -> DirectoryVoter:
    """The only voter of a new cluster with `kraft.version` 1, at the address of its first listener
    for controllers.
    """
    if not node.is_controller:
        raise FormatRefused(f"node {node.node_id} is no controller: it cannot vote alone")
    listener = node.listeners_of(Role.CONTROLLER)[0]
    told = listener if listener.advertised is None else listener.advertised
    if told.port == 0:
        raise FormatRefused(f"listener {listener.name} needs a port that other nodes can know")
    return DirectoryVoter(
        node_id=node.node_id,
        host=host_name if told.host in ANY_HOSTS else told.host,
        port=told.port,
        directory_id=random_id(random_bytes),
    )


def plan_format(
    request: FormatRequest,
    owners: Mapping[str, DirectoryIdentity | None],
    *,
    random_bytes: Callable[[int], bytes],
    now_ms: int,
) -> tuple[FormattedDirectory, ...]:
    """What is to be written where nothing is formatted yet; FormatRefused, or ForeignDirectory for
    directories of others.
    """
    node = request.node
    cluster_of(owners, node_id=node.node_id, cluster_id=request.cluster_id)
    formatted = [path for path in request.directories if owners.get(path) is not None]
    if formatted and not request.ignore_formatted:
        raise FormatRefused(
            f"{formatted[0]} is formatted already, for cluster {request.cluster_id};"
            " with --ignore-formatted the others are formatted"
        )
    if formatted and request.metadata_directory not in formatted and request.makes_a_voter:
        raise FormatRefused(
            f"{formatted[0]} is formatted, so node {node.node_id} is not new, and"
            f" {request.metadata_directory} is not formatted as a voter's: {replaced_disk(node)}"
        )
    directory_ids = {
        voter.directory_id for voter in request.voters if voter.node_id == node.node_id
    }
    return tuple(
        _planned(
            request,
            path,
            directory_ids.pop()
            if directory_ids and path == request.metadata_directory
            else random_id(random_bytes),
            now_ms,
        )
        for path in request.directories
        if path not in formatted
    )


def refuse_unmarked_log(disk: Disk, metadata_directory: str) -> None:
    """A metadata log in a directory without `meta.properties` is somebody's: it is not formatted
    over.
    """
    path = f"{metadata_directory}/{METADATA_LOG}"
    if not disk.is_directory(path):
        return
    stored = [name for name in disk.names(path) if name.endswith(layout.LOG)]
    if any(disk.size(f"{path}/{name}") for name in stored):
        raise FormatRefused(
            f"{path} holds a metadata log, but {metadata_directory} has no {layout.IDENTITY}:"
            " restore it from a copy, or move the log away"
        )


def refuse_ignored_voters(disk: Disk, node: ClusterNode, metadata_directory: str) -> None:
    """A directory of a cluster with `kraft.version` 1 is not served with settings by which the node
    would vote alone.
    """
    if not node.is_only_voter:
        return
    if disk.exists(f"{metadata_directory}/{METADATA_LOG}/{VOTERS_FILE}"):
        raise FormatRefused(
            f"{metadata_directory} was formatted with the voters of a cluster in its metadata log,"
            " and these settings would make the node a cluster of its own: start it with the"
            " server.properties that it was formatted with"
        )


def write_format(disk: Disk, planned: FormattedDirectory) -> None:
    """Durable when it returns."""
    for name, content in planned.files.items():
        file = f"{planned.path}/{name}"
        make_lasting(disk, file.rpartition("/")[0])
        disk.write_whole(file, content)
    write_identity(disk, planned.path, planned.identity)


def replaced_disk(node: ClusterNode) -> str:
    """What to do instead of formatting a voter that has lost its disk."""
    if node.has_dynamic_voters:
        return "format it with --no-initial-controllers, and add it to the voters afterwards"
    return (
        "a voter that has lost its disk may have voted and has forgotten it; while the other voters"
        " run and have caught up, stop all nodes, give this one a new node.id in its place in"
        " controller.quorum.voters on every node, format it under that id, and start all again"
    )


def _planned(
    request: FormatRequest, path: str, directory_id: bytes, now_ms: int
) -> FormattedDirectory:
    files: dict[str, bytes] = {}
    if path == request.metadata_directory:
        records = first_records(
            min_insync_replicas=request.min_insync_replicas, users=request.users
        )
        files[BOOTSTRAP_FILE] = bootstrap_checkpoint(records, now_ms=now_ms)
        if request.voters:
            listener = request.node.quorum.listener
            assert listener is not None, "voters of a node that is alone"
            files[f"{METADATA_LOG}/{VOTERS_FILE}"] = voters_checkpoint(
                request.voters, listener=listener, now_ms=now_ms
            )
    return FormattedDirectory(
        path=path,
        identity=DirectoryIdentity(
            cluster_id=request.cluster_id,
            node_id=request.node.node_id,
            directory_id=directory_id,
        ),
        files=files,
    )
