"""From lines to words, from words to their counts."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F


def words(lines: DataFrame) -> DataFrame:
    """One row for each word of each value, in lower case, without punctuation."""
    text = F.lower(F.col("value").cast("string"))
    found = lines.select(F.explode(F.split(text, r"[^\p{L}\p{N}']+")).alias("word"))
    return found.where(F.col("word") != "")


def counts(words: DataFrame) -> DataFrame:
    """The count of each word, as the output topic has it: the word is the key."""
    return (
        words.groupBy("word")
        .count()
        .select(F.col("word").alias("key"), F.col("count").cast("string").alias("value"))
    )
