"""The replay pipeline as a program of its own, to be killed: `python -m rig.replay_driver PLACE`.

PLACE is the JSON of a Place. It says nothing, and runs until it is killed or has failed.
"""

import json
import sys

import penstock.spark
from penstock.spark.pipelines.place import Place
from penstock.spark.pipelines.replay import job
from rig.small_spark import SMALL_SPARK


def main() -> None:
    place = Place(**json.loads(sys.argv[1]))
    spark = penstock.spark.session("replay", master="local[2]", **SMALL_SPARK)
    for query in job.start(spark, place):
        query.awaitTermination()


if __name__ == "__main__":
    main()
