"""Clusters keep what they acked through faults of all kinds, and are whole again after them.

A few seeds, and those that have found a bug: `penstock sim run --nodes 3 --seeds N` has more.
"""

from dataclasses import replace

import pytest

from penstock.sim.cluster.run import run_seed
from penstock.sim.cluster.scenario import LIMITS, draw
from penstock.sim.entropy import stream
from penstock.sim.fault_plan import HostFaultKind, draw_plan
from penstock.sim.seed_figures import WORTH

FOUND_BUGS = (
    3,  # a forwarding connection that had fallen silent was used for ever
    39,  # so was that of heartbeats, and the broker stayed fenced
    7,  # records were taken for a partition that had been given back and given again
    163,  # a kill after an unclean start counted as another one
    325,  # a producer's first batches were refused by a broker that then led, and took a later one
    328,  # a topic created on a full disk was not made when there was room again
    544,  # a last known leader that could not open its log led for ever, and no operator could help
    1925,  # the same, after both replicas in sync had been damaged and killed
    1084,  # a parked SyncGroup was not answered while its group's assignment was not committed
    1704,  # the same, with too few replicas in sync
    200561,  # the check did not know what a controller that lost power had stored just before
    210346,  # the last known leader had cut off what a flipped bit stood before, and others had it
    210499,  # the same, on each of three nodes in another partition
    210471,  # recovery cut without a sync: a power loss brought batches back amid later ones
    230759,  # the last one who had records left the in-sync set to two that had lost power
    240147,  # a flipped bit behind the saved high watermark was cut off, on two of three nodes
    240503,  # the check: a creation that was given up was done after the deletion
    240784,  # the same
    240849,  # the check took a reply that was under way for one of now
    261387,  # one that was restarted left the in-sync set to another that had lost power
    280500,  # a node that ended for want of disk space gave another reason
    281565,  # a power loss took the last batch of a segment, and recovery did not miss it
    200170,  # a silent connection was kept: whoever had asked on it had gone
)


@pytest.mark.parametrize("seed", [0, *FOUND_BUGS])
def test_a_cluster_of_three_keeps_its_promises(seed: int) -> None:
    outcome = run_seed(seed, nodes=3)
    assert outcome.violation is None
    assert WORTH.reached_by(outcome.figures), outcome.figures


@pytest.mark.parametrize(
    "seed",
    [
        0,
        850,  # a request that was sent again deleted a topic while the replicas were judged
    ],
)
def test_a_cluster_whose_partitions_have_one_replica_keeps_its_promises(seed: int) -> None:
    outcome = run_seed(seed, nodes=3, replicas=1)
    assert outcome.violation is None
    assert WORTH.reached_by(outcome.figures), outcome.figures


def test_a_cluster_whose_bits_flip_while_nodes_are_killed_keeps_its_promises() -> None:
    """The seed of faults that were chosen by hand: a node that was away while a partition was made
    had no start file for the rest of its life, and cut off a damaged log at its next start.
    """
    kinds = (
        HostFaultKind.FLIPPED_BIT,
        HostFaultKind.KILL,
        HostFaultKind.KILL_IN_A_CALL,
        HostFaultKind.POWER_LOSS,
        HostFaultKind.STOP,
    )
    outcome = run_seed(220175, nodes=3, kinds=kinds)
    assert outcome.violation is None
    assert WORTH.reached_by(outcome.figures), outcome.figures


@pytest.mark.parametrize("nodes", [1, 5])
def test_a_cluster_of_another_size_keeps_its_promises(nodes: int) -> None:
    outcome = run_seed(2, nodes=nodes)
    assert outcome.violation is None
    assert outcome.figures.acked > 100


@pytest.mark.parametrize(
    "kind",
    [
        HostFaultKind.KILL_IN_A_CALL,
        HostFaultKind.POWER_LOSS,
        HostFaultKind.STOP,
        HostFaultKind.PAUSE,
        HostFaultKind.ONE_WAY,
        HostFaultKind.FULL_DISK,
        HostFaultKind.FLIPPED_BIT,
        HostFaultKind.WIPED_DIRECTORY,
    ],
)
def test_a_cluster_keeps_its_promises_through_many_faults_of_one_kind(kind: HostFaultKind) -> None:
    drawn = draw(1, nodes=3)
    limits = replace(LIMITS, kinds=(kind,), faults_min=8, last_ms=30_000)
    hosts = ("node-1", "node-2", "node-3")
    scenario = replace(drawn, plan=draw_plan(stream(1, "faults of one kind"), hosts, limits))
    assert run_seed(1, scenario=scenario).violation is None
