"""What is still to be done for the queries of a session when its program ends.

Spark calls streaming listeners some time after a batch, or a query, has ended. A program that ends
in between takes its listeners with it: the last progress would never be committed, and Spark would
log a stack trace for each call that it can no longer make. So the end of the program waits until
Spark has made the calls that are due, and then removes the listeners, because a query may still be
running. `SparkSession.stop` waits for these calls by itself.

The waiting is done in a thread that joins the main thread, and all others that Python waits for,
because queries may be awaited in them. It is not done in an `atexit` handler: Python waits for
threads that are started meanwhile, and later versions refuse to start any in `atexit`.
"""

import logging
import threading
from collections.abc import Sequence

from py4j.protocol import Py4JError  # type: ignore[import-untyped] # it has no types
from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import StreamingQueryListener

CALLS_MS_MAX = 30_000

logger = logging.getLogger(__name__)


def finish_at_program_end(spark: SparkSession, listeners: Sequence[StreamingQueryListener]) -> None:
    FinishingThread(spark, listeners).start()


class FinishingThread(threading.Thread):
    def __init__(self, spark: SparkSession, listeners: Sequence[StreamingQueryListener]) -> None:
        super().__init__(name="penstock finishes listeners", daemon=False)
        self._spark = spark
        self._listeners = listeners

    def run(self) -> None:
        while program := _threads_of_the_program():  # they may have started others meanwhile
            for thread in program:
                thread.join()
        _finish(self._spark, self._listeners)


def _threads_of_the_program() -> list[threading.Thread]:
    """Those that Python waits for, the main thread too. Ours do not wait for each other."""
    return [
        thread
        for thread in threading.enumerate()
        if thread.is_alive() and not thread.daemon and not isinstance(thread, FinishingThread)
    ]


def _finish(spark: SparkSession, listeners: Sequence[StreamingQueryListener]) -> None:
    try:
        spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty(CALLS_MS_MAX)
    except AttributeError:
        return  # the session was stopped
    except Py4JError:
        logger.warning("Spark has not reported all progress of its queries: their lag may be old")
    try:
        for listener in listeners:
            spark.streams.removeListener(listener)
    except Py4JError:
        return  # Spark has ended
