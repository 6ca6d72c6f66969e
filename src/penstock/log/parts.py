"""The parts of a loaded log, before it is put together."""

from penstock.log.memory import LogMemory
from penstock.log.recovery import RecoveryReport
from penstock.log.segment import Segment
from penstock.model.identity import TopicId
from penstock.model.lazy_dataclass import dataclass
from penstock.model.offset import Offset


@dataclass(slots=True, kw_only=True)
class LogParts:
    topic_id: TopicId
    segments: list[Segment]  # the last one is active
    memory: LogMemory
    end_offset: Offset
    recovery: RecoveryReport
    fresh: bool  # there was none before
