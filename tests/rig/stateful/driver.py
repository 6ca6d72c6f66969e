"""A driver program that starts stateful queries: `python -m rig.stateful.driver SETTINGS`."""

from typing import Any

from penstock.spark.pipelines import streams
from penstock.spark.pipelines.place import Place
from rig import planned_strikes
from rig.spark_driver import Driver, main
from rig.stateful.queries import start_query

QUERIES_MAX = 1_000


class StatefulDriver(Driver):
    def answer(self, asked: dict[str, Any]) -> object:
        match asked:
            case {"operation": "start_struck", "what": what, "place": place, **told}:
                planned_strikes.register(self.spark, told["strikes"])
                started = start_query(self.spark, what, Place(**place), sink=told["sink"])
                self.queries |= {str(query.id): query for query in started}
                return [str(query.id) for query in started]
            case _:
                return super().answer(asked)


if __name__ == "__main__":
    # A query that is held is in its first batch for good: nobody waits for the end of that.
    streams.FIRST_BATCHES_AT_ONCE = QUERIES_MAX
    main(StatefulDriver)
