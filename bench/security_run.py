"""What the measurements of security share: the load program, its templates, and every run kept."""

import argparse
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from brokers import Broker, LoneBroker, topic_on
from cases import Case, Kind
from loading import Measured, Templates, Topic, run_program, write_templates
from rich.console import Console
from secured import secured_brokers

RECORD_BYTES = 100
SMALL = Case(name="small", kind=Kind.SMALL, record_bytes=RECORD_BYTES, batch_bytes=0)


@dataclass(slots=True, kw_only=True)
class Run:
    """One subcommand from its start to its table."""

    arguments: argparse.Namespace
    program: Path
    folder: Path
    console: Console
    lines: list[dict[str, object]] = field(default_factory=list)
    _templates: Templates | None = None

    @property
    def quick(self) -> bool:
        return bool(self.arguments.quick)

    def brokers(self) -> list[LoneBroker]:
        return secured_brokers(
            self.folder,
            only=self.arguments.broker,
            settings=dict(pair.split("=", 1) for pair in self.arguments.set),
            console=self.console,
        )

    def load(self, broker: Broker, options: Mapping[str, object], **told: object) -> Measured:
        """Runs the load program, and keeps what it measured under what is told about the run."""
        measured = run_program(self.program, broker, options)
        self.keep(broker=broker.name, **told, measured=asdict(measured))
        return measured

    def keep(self, **line: object) -> None:
        self.lines.append(line)

    def small_options(self, topic: Topic) -> dict[str, object]:
        """Produce requests of one small record to the topic's one partition."""
        if self._templates is None:
            self._templates = write_templates(SMALL, self.folder)
        return {
            "topic-id": topic.topic_id.hex(),
            "topic": topic.name,
            "templates": self._templates.path,
        }

    def write_lines(self) -> None:
        with open(self.arguments.output, "w", encoding="utf-8") as output:
            output.writelines(json.dumps(line) + "\n" for line in self.lines)


def new_topic(broker: Broker, name: str) -> Topic:
    return Topic(name=name, topic_id=topic_on(broker, name, 1))


def not_a_topic() -> dict[str, object]:
    """For loads that have none: the program wants an id all the same."""
    return {"topic-id": bytes(16).hex()}
