"""The format "penstock", as Spark sees it: from options to a reader or a writer, and no more.

Spark makes one of these in a Python process of its own for each question that it has, so nothing
is kept here and nothing is done.
"""

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from penstock.spark.sink.batch import BatchSink
from penstock.spark.sink.options import sink_options
from penstock.spark.sink.stream import StreamSink
from penstock.spark.source.batch import BatchReader
from penstock.spark.source.columns import schema_of
from penstock.spark.source.options import includes_headers, source_options
from penstock.spark.source.stream import StreamReader

NAME = "penstock"


class PenstockDataSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> StructType:
        return schema_of(include_headers=includes_headers(self.options))

    def reader(self, schema: StructType) -> DataSourceReader:
        return BatchReader(source_options(self.options, streaming=False), schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return StreamReader(source_options(self.options, streaming=True), schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        return BatchSink(sink_options(self.options), schema, overwrite=overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        return StreamSink(sink_options(self.options), schema)
