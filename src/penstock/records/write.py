"""Writing records: by the kernel where it was compiled, else by its twin."""

try:
    from penstock.records.kernel.write import (
        encode_columns,
        encode_header_columns,
        encode_records,
        filter_records,
        murmur2,
        partitions_of,
        renumber_records,
    )
except ImportError:  # there was no compiler where this was installed
    from penstock.records.twin.write import (
        encode_columns,
        encode_header_columns,
        encode_records,
        filter_records,
        murmur2,
        partitions_of,
        renumber_records,
    )

__all__ = [
    "encode_columns",
    "encode_header_columns",
    "encode_records",
    "filter_records",
    "murmur2",
    "partitions_of",
    "renumber_records",
]
