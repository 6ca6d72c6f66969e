"""Which partition of `__consumer_offsets` a group belongs to: the same as in Apache Kafka."""

OFFSETS_TOPIC = "__consumer_offsets"

_INT32_MODULUS = 2**32
_INT32_MIN = -(2**31)


def partition_of(group_id: str, *, partition_count: int) -> int:
    """Java's hash of the id, made positive, over the partitions."""
    assert partition_count > 0
    signed = java_hash(group_id)
    return (0 if signed == _INT32_MIN else abs(signed)) % partition_count


def java_hash(text: str) -> int:
    """String.hashCode: over UTF-16 code units, wrapping as an int32 does."""
    reckoned = 0
    units = text.encode("utf-16-be", "surrogatepass")
    for position in range(0, len(units), 2):
        unit = units[position] << 8 | units[position + 1]
        reckoned = (31 * reckoned + unit) % _INT32_MODULUS
    return reckoned - _INT32_MODULUS if reckoned > -_INT32_MIN - 1 else reckoned
