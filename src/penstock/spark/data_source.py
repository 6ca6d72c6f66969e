"""The format "penstock", as Spark sees it: from options to a reader or a writer, and no more.

Spark creates one of these in a separate Python process for each call, so it keeps no state and does
no work. Such a process needs either the source or the sink, and should not import the other: this
table imports them when they are first used.
"""

import importlib
import logging
from functools import lru_cache
from types import ModuleType

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from penstock.spark.config_file import with_file
from penstock.spark.options import CHECKPOINT, SINK_ID, unheeded
from penstock.spark.profiler_results import drop_empty_results

NAME = "penstock"
_HOME = {
    "columns": "penstock.spark.source.columns",
    "source options": "penstock.spark.source.options",
    "reader": "penstock.spark.source.batch",
    "stream reader": "penstock.spark.source.stream",
    "sink options": "penstock.spark.sink.options",
    "writer": "penstock.spark.sink.batch",
    "stream writer": "penstock.spark.sink.stream",
}

WARNINGS_MAX = 1_000  # that a process remembers

logger = logging.getLogger(__name__)


class PenstockDataSource(DataSource):
    cores: int | None = None  # of Spark, where `data_source` was told

    def __init__(self, options: dict[str, str]) -> None:
        super().__init__(options)
        drop_empty_results()

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> StructType:
        headers = _late("source options").includes_headers(self.options)
        schema = _late("columns").schema_of(include_headers=headers)
        assert isinstance(schema, StructType)
        return schema

    def reader(self, schema: StructType) -> DataSourceReader:
        known = self._known("source options", streaming=False)
        options = known.source_options(with_file(self.options), streaming=False, cores=self.cores)
        reader = _late("reader").BatchReader(options, schema)
        assert isinstance(reader, DataSourceReader)
        return reader

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        known = self._known("source options", streaming=True)
        options = known.source_options(with_file(self.options), streaming=True, cores=self.cores)
        reader = _late("stream reader").StreamReader(options, schema)
        assert isinstance(reader, DataSourceStreamReader)
        return reader

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        known = self._known("sink options", streaming=False)
        options = known.sink_options(with_file(self.options))
        writer = _late("writer").BatchSink(options, schema, overwrite=overwrite)
        assert isinstance(writer, DataSourceWriter)
        return writer

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        known = self._known("sink options", streaming=True)
        options = known.sink_options(with_file(self.options))
        writer = _late("stream writer").StreamSink(options, schema)
        assert isinstance(writer, DataSourceStreamWriter)
        return writer

    def _known(self, half: str, *, streaming: bool) -> ModuleType:
        """The options of source or sink; those of the user that have no effect, or a new name, are
        logged.
        """
        drop_empty_results()
        known = _late(half)
        told = {name.lower(): value for name, value in self.options.items()}
        whose = told.get(CHECKPOINT.lower()) or told.get(SINK_ID.lower())
        for name in self.options:
            renamed = known.RENAMED.get(name.lower())
            if renamed is not None:
                _warn_once(f"option {name} is called {renamed} now; it is still obeyed", whose)
        names = unheeded(self.options, heeded=known.HEEDED)
        if names:
            _warn_once(f"these options have no effect on {NAME}: {', '.join(names)}", whose)
        for sentence in known.without_effect(told, streaming=streaming):
            _warn_once(sentence, whose)
        return known


@lru_cache(maxsize=WARNINGS_MAX)
def _warn_once(line: str, whose: str | None) -> None:
    """Once for each query: Spark asks for its writer in each batch, in processes that it keeps."""
    logger.warning("%s", line)


def data_source(*, cores: int | None) -> type[PenstockDataSource]:
    """The class to register. The processes that plan a query can't ask Spark how many cores it has;
    a class that is made here is carried to them by value, with what it knows.
    """

    class WithCores(PenstockDataSource):
        pass

    WithCores.cores = cores
    return WithCores


def _late(name: str) -> ModuleType:
    return importlib.import_module(_HOME[name])
