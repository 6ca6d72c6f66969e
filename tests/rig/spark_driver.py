"""A driver program, to be run as a process of its own: `python -m rig.spark_driver SETTINGS`.

Questions come as lines of JSON on standard input and are answered on standard output, in turn. It
ends when its input does. `rig.spark_driving` is the other end.
"""

import base64
import json
import sys
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from penstock.spark import session
from rig.spark_query import Carrying, start
from rig.spark_strikes import StruckDataSource


class Driver:
    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark
        self.queries: dict[str, StreamingQuery] = {}

    def answer(self, asked: dict[str, Any]) -> object:
        match asked:
            case {"operation": "start", "carrying": carrying}:
                query = start(self.spark, Carrying(**carrying))
                self.queries[str(query.id)] = query
                return str(query.id)
            case {"operation": "await", "query": query_id}:
                return ended(self.queries[query_id])
            case {"operation": "look", "query": query_id}:
                return self.queries[query_id].isActive
            case {"operation": "read", "format": name, "options": options}:
                rows = self.spark.read.format(name).options(**options).load().collect()
                return [encoded(row.asDict(recursive=True)) for row in rows]
            case {"operation": "write", "format": name, "options": options, "rows": rows}:
                frame = self.spark.createDataFrame(
                    [(row["key"], row["value"]) for row in rows], "key string, value string"
                )
                frame.write.format(name).mode("append").options(**options).save()
                return None
            case _:
                raise ValueError(f"not understood: {asked}")


def ended(query: StreamingQuery) -> dict[str, object]:
    """How a query came to its end; `error` is None where it came to the end of its rows."""
    try:
        query.awaitTermination()
    except Exception as error:
        return {"error": str(error)}
    batches = [progress["batchId"] for progress in query.recentProgress if progress["numInputRows"]]
    return {"error": None, "batches": batches}


def encoded(value: object) -> object:
    match value:
        case dict():
            return {name: encoded(one) for name, one in value.items()}
        case list():
            return [encoded(one) for one in value]
        case bytes() | bytearray():
            return {"base64": base64.b64encode(value).decode()}
        case None | str() | int() | float():
            return value
        case _:
            return str(value)


def main(kind: type[Driver] = Driver) -> None:
    settings = json.loads(sys.argv[1])
    answers = sys.stdout
    sys.stdout = sys.stderr  # whatever else is printed must not be taken for an answer
    spark = session("penstock-tests", **settings)
    spark.dataSource.register(StruckDataSource)
    driver = kind(spark)
    print(json.dumps({"answer": "ready"}), file=answers, flush=True)
    for line in sys.stdin:
        try:
            told: dict[str, object] = {"answer": driver.answer(json.loads(line))}
        except Exception as error:
            told = {"trouble": f"{type(error).__name__}: {error}"}
        print(json.dumps(told), file=answers, flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
