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

NAME = "penstock"


class PenstockDataSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> StructType | str:
        raise NotImplementedError

    def reader(self, schema: StructType) -> DataSourceReader:
        raise NotImplementedError

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        raise NotImplementedError

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        raise NotImplementedError

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        raise NotImplementedError
