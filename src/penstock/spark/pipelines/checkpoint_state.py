"""Which kind of state a checkpoint has: state that forgets keys, or state that keeps them.

Spark can't turn one into the other. It would end the query with a page of Java.
"""

from pyspark.sql import SparkSession

from penstock.model.error import PenstockError
from penstock.spark.pipelines.place import Place

FORGETTING = "transformWithStateInPySparkExec"


class OtherState(PenstockError):
    """The checkpoint was made with `--forget-after` and the query runs without it, or reverse."""


def refuse_other_state(spark: SparkSession, place: Place, *, query: str) -> None:
    """OtherState if the query has a checkpoint in which keys are forgotten and the place says that
    they are not, or the reverse.
    """
    checkpoint = place.checkpoint(query)
    rows = spark.read.format("state-metadata").load(checkpoint).collect()
    operators = {row["operatorName"] for row in rows}
    forgets = place.forget_after_ms is not None
    if not operators or (FORGETTING in operators) == forgets:
        return
    was = "without" if forgets else "with"
    raise OtherState(
        f"{query} was started {was} --forget-after: run it {was} it, or remove its checkpoint"
        f" {checkpoint} to read its topics from the start"
    )
