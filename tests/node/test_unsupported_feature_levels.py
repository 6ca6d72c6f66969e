"""`penstock cluster upgrade` to a level that one node does not support, with real processes.

The third voter is of an older release: it does not run, and what it would say of itself is said for
it, as a message to the active controller.
"""

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from penstock.client.admin.quorum import Quorum, describe_quorum
from penstock.model.error import ErrorCode
from penstock.wire.messages.control_records import KRaftVersionFeature
from penstock.wire.messages.endpoints import NamedEndpoint
from penstock.wire.messages.update_raft_voter import UpdateRaftVoterRequest
from rig.client_cluster import run_with_cluster
from rig.cluster_questions import until
from rig.dialogue import Dialogue
from rig.fixed_voters import CLUSTER_ID, FixedVoters, start
from rig.served_cluster import PENSTOCK

OLD = 3
DIRECTORY_ID = b"an older release"
COMMAND_SECONDS_MAX = 300


@pytest.fixture
def voters(tmp_path: Path) -> Iterator[FixedVoters]:
    with FixedVoters() as voters:
        start(*(voters.made(number, tmp_path) for number in (1, 2)))
        yield voters


def penstock(voters: FixedVoters, *command: str) -> subprocess.CompletedProcess[str]:
    running = f"{voters.address(1)},{voters.address(2)}"
    return subprocess.run(
        [PENSTOCK, "cluster", *command, "--bootstrap", running],
        env=dict(os.environ),
        capture_output=True,
        text=True,
        timeout=COMMAND_SECONDS_MAX,
    )


def level(voters: FixedVoters) -> int:
    told = json.loads(penstock(voters, "features", "--json").stdout)["features"]
    [found] = [one["level"] for one in told if one["name"] == "kraft.version"]
    return int(found)


def say_of_the_old_voter(voters: FixedVoters, *, kraft_version_max: int) -> None:
    def is_taken() -> bool:
        quorum: Quorum = run_with_cluster(voters.address(1), describe_quorum)
        host, port = voters.controller(OLD).split(":")
        request = UpdateRaftVoterRequest(
            cluster_id=CLUSTER_ID,
            current_leader_epoch=quorum.epoch,
            voter_id=OLD,
            voter_directory_id=DIRECTORY_ID,
            listeners=[NamedEndpoint(name="CONTROLLER", host=host, port=int(port))],
            k_raft_version_feature=KRaftVersionFeature(
                min_supported_version=0, max_supported_version=kraft_version_max
            ),
        )
        assert quorum.leader_id is not None
        with closing(Dialogue(voters.controller(quorum.leader_id), "")) as dialogue:
            reply = dialogue.exchange(request, version=0)
        return bool(reply.error_code == ErrorCode.NONE)

    until("the active controller has heard it", is_taken)


def test_a_level_that_one_voter_does_not_support_is_refused(voters: FixedVoters) -> None:
    say_of_the_old_voter(voters, kraft_version_max=0)
    for option in ((), ("--dry-run",)):
        refused = penstock(voters, "upgrade", "kraft.version=1", *option)
        assert (refused.returncode, refused.stdout) == (1, "")
        assert "does not support" in refused.stderr
        assert refused.stderr.count("\n") == 1
    assert level(voters) == 0

    # Once it does, nothing is in the way.
    say_of_the_old_voter(voters, kraft_version_max=1)
    raised = penstock(voters, "upgrade", "kraft.version=1")
    assert raised.returncode == 0, raised.stderr
    until("the level is 1", lambda: level(voters) == 1)
