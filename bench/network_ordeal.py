"""A leader is cut off by the network, under load: it acks nothing, and nothing acked is lost.

    python bench/network_ordeal.py [--times 10] [--broker kafka] [--cuts nodes,alone]

Three nodes in network namespaces of Linux, made by the program without rights; partitions with
three replicas, min.insync.replicas=2, producers as in `failover_ordeal.py`. Each kind of cut so
many times, in random order, until the others have elected leaders:

    nodes       a leader is cut off from the other nodes, and not from clients
    outwards    what a leader sends to the other nodes is lost
    inwards     what the other nodes send to a leader is lost
    alone       a leader is cut off from the other nodes and from clients
    answers     what a leader answers to clients is lost, and soon it is cut off from all

Meanwhile it is asked to write with acks of all, and must not ack. At the end the same must hold as
in `failover_ordeal.py`, and the result names the clients that took part. `--acks 1` gives it up,
so that losses must be found.
"""

import os
import sys

from brokers import TESTS

if __name__ == "__main__":
    paths = [str(TESTS), os.environ.get("PYTHONPATH", "")]
    os.environ["PYTHONPATH"] = os.pathsep.join(path for path in paths if path)
    os.execv(sys.executable, [sys.executable, "-m", "rig.failover.network_run", *sys.argv[1:]])
