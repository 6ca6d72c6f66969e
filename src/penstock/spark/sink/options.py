"""The options of the sink: what is written where, and with which promise."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from penstock.spark.options import ConnectionOptions, given

KNOWN = ("topic", "includeHeaders", "sinkId", "mode", "decisionTopic")


class SinkMode(Enum):
    EXACTLY_ONCE = "exactly_once"
    AT_LEAST_ONCE = "at_least_once"


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkOptions:
    connection: ConnectionOptions
    topic: str | None = None
    mode: SinkMode = SinkMode.EXACTLY_ONCE
    sink_id: str | None = None
    decision_topic: str | None = None
    checkpoint_location: str | None = None


def sink_options(options: Mapping[str, str]) -> SinkOptions:
    """Of a writer's options; BadOption, in one line, for what is wrong with them."""
    read = given(options, known=KNOWN)
    return SinkOptions(
        connection=read.connection(),
        topic=read.text("topic"),
        mode=read.choice("mode", {mode.value: mode for mode in SinkMode}, SinkMode.EXACTLY_ONCE),
        sink_id=read.text("sinkId"),
        decision_topic=read.text("decisionTopic"),
        checkpoint_location=read.text("checkpointLocation"),
    )
