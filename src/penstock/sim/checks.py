"""The checks of simulations by name, and the promise that each looks at.

A violation begins with the name of its check. `docs/simulator.md` lists them for clusters.
"""

from collections.abc import Mapping

CHECKS: Mapping[str, str] = {
    "aborted read": "no reader of committed records gets one whose commit nobody has asked for",
    "acks": "a record is acked once min.insync.replicas replicas have it",
    "answers": "every request is answered, and every client comes to an end",
    "atomicity": "all records and offsets of a transaction count, or none, for whoever reads",
    "commits": "an acked offset of a group stands, and none moves back",
    "compaction": "compaction keeps the latest value of each key",
    "contents": "what is read was sent, to this topic, and is not changed",
    "deletion": "records that were deleted are gone",
    "done twice": "an operation is done once, however often it is sent",
    "duplicates": "a record is in the log once, however often it was sent",
    "electable": "every replica that could be elected has what is committed or acked",
    "fenced leader": "no client is told of a leader that it cannot reach",
    "fencing": "once a later epoch was given out, no older one writes or ends a transaction",
    "health": "a bounded time after the last fault the cluster is whole again",
    "image": "who is told of a change finds it in the image of the node that told it",
    "images": "images of two nodes at one offset are equal",
    "invariants": "the numbered invariants of all parts of all nodes hold",
    "leader epochs": "each process that leads a partition has a leader epoch of its own",
    "leaders": "the leader of a partition is a registered broker",
    "lost operation": "an acked change of the metadata is in force on every node",
    "lost records": "an acked record is at its offset",
    "metadata": "an acked change of the metadata lasts",
    "metadata log": "metadata logs agree below the high watermark",
    "offsets": "an offset has one record, for whoever reads it",
    "order": "records of one producer are in the order in which they were sent",
    "readable": "everything that is there can be read",
    "registration": "a broker is unfenced once it knows the metadata up to its own registration",
    "replicas": "replicas agree below their high watermarks, byte for byte",
    "restart": "a node starts and stops in bounded time, and ends by nothing but a fault",
    "retention": "retention takes what is old or too much, and nothing else",
    "scale": "a cluster of any size is made, changed and whole again in bounded time",
    "served": "through each node a topic can be created, written to and deleted",
    "stable offset": "no transaction stays open when its time is over",
    "transaction offsets": "offsets committed in transactions follow each other without a gap",
    "transaction order": "transactions of one application are in the order in which they began",
    "transactions": "a transaction counts in all its partitions or in none",
    "two controllers": "one controller is active in an epoch",
    "two leaders": "one node leads the quorum in an epoch",
    "two owners": "in one epoch of a group a partition belongs to one member",
    "watermark": "no high watermark goes back for a reader, or while its process lives",
}


def promise_of(violation: str) -> str | None:
    """What the check that a violation names looks at; None if no check of ours has ended it."""
    return CHECKS.get(violation.partition(":")[0])
