"""From lines to words, from words to their counts."""

from collections.abc import Iterable

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from penstock.spark.pipelines.forgetting import Fields, View, view_of_recent


def words(lines: DataFrame, *columns: str) -> DataFrame:
    """One row for each word of each value, in lower case, without punctuation; and with it these
    columns of its line.
    """
    text = F.lower(F.col("value").cast("string"))
    split = F.explode(F.split(text, r"[^\p{L}\p{N}']+"))
    return lines.select(*columns, split.alias("word")).where(F.col("word") != "")


def counts(words: DataFrame) -> DataFrame:
    """The count of each word, as the output topic has it: the word is the key."""
    return (
        words.groupBy("word")
        .count()
        .select(F.col("word").alias("key"), F.col("count").cast("string").alias("value"))
    )


def timed(lines: DataFrame) -> DataFrame:
    """With `at`, the timestamp of a line's record. One that is ahead of the time of its batch is
    taken for that time: it would make the watermark pass all other lines.
    """
    return lines.withColumn("at", F.least("timestamp", F.current_timestamp()))


def recent_counts(words: DataFrame, *, forget_after_ms: int) -> DataFrame:
    """As `counts`, of words with a time `at`. A word that has not come up for so long is forgotten:
    it gets a row without a value, and is counted from 1 when it comes again.
    """
    recent = view_of_recent(words, COUNT, key="word", at="at", forget_after_ms=forget_after_ms)
    return recent.select(
        F.col("word").alias("key"), F.col("view.count").cast("string").alias("value")
    )


def _counted(known: Fields | None, words: Iterable[Row]) -> Fields:
    found = sum(1 for _ in words)
    return (found if known is None else known[0] + found,)


def _shown(memory: Fields) -> Row:
    return Row(count=memory[0])


COUNT = View(memory="count long", shown="count long", add=_counted, show=_shown)
