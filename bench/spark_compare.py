"""Spark's reading and writing beside its own Kafka connector, and where the CPU of each GB goes.

    python bench/spark_compare.py --before SRC --output runs.jsonl

All of spark_read.py and of spark_write.py, with their options, on one node and in one JVM: seven
rounds, medians with quartiles, the floors, and the ledger of CPU.
"""

from collections.abc import Iterator

import spark_read
import spark_write
from spark_rounds import Case
from spark_run import Place, run


def cases(place: Place) -> Iterator[Case]:
    yield from spark_read.cases(place)
    yield from spark_write.cases(place)


if __name__ == "__main__":
    run(__doc__, cases)
