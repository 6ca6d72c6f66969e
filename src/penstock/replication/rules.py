"""What a topic's settings require of the batches produced to it."""

from penstock.model.settings.setting import LONG_MAX
from penstock.model.settings.topic import TopicSettings
from penstock.records.compression import Codec
from penstock.records.layout import TimestampType
from penstock.records.scratch import Scratch
from penstock.records.validate import AppendRules

_CODECS: dict[str, Codec | None] = {
    "producer": None,
    "uncompressed": Codec.NONE,
    "gzip": Codec.GZIP,
    "snappy": Codec.SNAPPY,
    "lz4": Codec.LZ4,
    "zstd": Codec.ZSTD,
}
GZIP_LEVEL_DEFAULT = -1


def rules_of(settings: TopicSettings, *, scratch: Scratch | None) -> AppendRules:
    """The rules as of time 0: the owner updates `now_ms`."""
    codec = _CODECS[settings.compression_type]
    by_our_clock = settings.message_timestamp_type == "LogAppendTime"
    return AppendRules(
        max_message_bytes=settings.max_message_bytes,
        timestamp_type=(
            TimestampType.LOG_APPEND_TIME if by_our_clock else TimestampType.CREATE_TIME
        ),
        timestamp_before_max_ms=settings.message_timestamp_before_max_ms,
        timestamp_after_max_ms=settings.message_timestamp_after_max_ms,
        compacted="compact" in settings.cleanup_policy,
        codec=codec,
        codec_level=_level(codec, settings),
        now_ms=0,
        segment_bytes=settings.segment_bytes,
        scratch=scratch,
    )


def sync_records_of(settings: TopicSettings) -> int | None:
    """How many records may be unsynced before an append waits for a sync; None: any number."""
    if settings.penstock_ack_fsync:
        return 1
    return None if settings.flush_messages == LONG_MAX else settings.flush_messages


def _level(codec: Codec | None, settings: TopicSettings) -> int | None:
    match codec:
        case Codec.GZIP:
            level = settings.compression_gzip_level
            return None if level == GZIP_LEVEL_DEFAULT else level
        case Codec.LZ4:
            return settings.compression_lz4_level
        case Codec.ZSTD:
            return settings.compression_zstd_level
        case _:
            return None
