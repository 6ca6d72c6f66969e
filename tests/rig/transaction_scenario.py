"""Scenarios of transactions that read like a log of what happens: a step, and what comes of it.

    == A transaction is committed
    a begins                        => 1001:0
    a adds orders-0                 => ok
    a commits                       => 1001:1; sends commit 1001:1 to orders-0
    markers are written             => complete

After the arrow stands the reply (an identity is a producer id and an epoch) and what is sent to
partitions because of the step, all of it. A client uses the identity that it was told last. Steps:

    settings NAME=VALUE ...         the coordinator's, before all other steps
    a is of generation 1, named t2, with 5 s        2, t and 60 s unless it is said
    a begins, trading in, two-phase, keeping, version 3
    a adds orders-0 orders-1, version 1             a verifies orders-0
    a commits, version 1            a aborts        b knows what a knows
    markers are written             all that were sent and not yet reported
    markers of orders-0 are written                 and those of other partitions are not
    old markers are reported        those that were reported last, once more
    5 s pass
    the coordinator fails over      with a compacted journal: to one that knows the last records
    the journal refuses; recovers   producer ids run out; come back
    t is worn to 32766              an epoch that years of use would bring
    t is Ongoing 1001:0 orders-0    t is gone
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from penstock.machine.held_replies import NotDone
from penstock.model.error import ErrorCode
from penstock.model.settings.transactions import TRANSACTION_SETTINGS, TransactionSettings
from penstock.transactions.markers import SendMarkers
from rig.transactions import NEVER_MS, Client, Coordinator, NoReply, partitions

MS = {"ms": 1, "s": 1000, "min": 60_000, "days": 86_400_000}


@dataclass(frozen=True, kw_only=True)
class Scenario:
    title: str
    lines: tuple[tuple[int, str], ...]  # with their numbers in the file


def scenarios_in(path: Path) -> Iterator[Scenario]:
    title, lines = "", list[tuple[int, str]]()
    for number, text in enumerate(path.read_text().splitlines(), start=1):
        line = text.partition("#")[0].strip()
        if line.startswith("=="):
            if title:
                yield Scenario(title=title, lines=tuple(lines))
            title, lines = line.strip("= "), []
        elif line:
            assert title, f"{path.name}:{number}: a step outside of a scenario"
            lines.append((number, line))
    yield Scenario(title=title, lines=tuple(lines))


class Run:
    """One scenario under way."""

    def __init__(self) -> None:
        self.coordinator = Coordinator()
        self.clients: dict[str, Client] = {}
        self.reported: list[SendMarkers] = []

    def play(self, scenario: Scenario) -> None:
        for number, line in scenario.lines:
            step, _, expected = (part.strip() for part in line.partition("=>"))
            sent_before = list(self.coordinator.sent)
            outcome = [self._do(step)]
            outcome += [shown(markers) for markers in self._news(sent_before)]
            seen = "; ".join(part for part in outcome if part)
            assert seen == expected, f"line {number}: {line}\n  but: {seen}"

    def _news(self, before: list[SendMarkers]) -> list[SendMarkers]:
        return [markers for markers in self.coordinator.sent if markers not in before]

    def _do(self, step: str) -> str:
        for form, act in STEPS.items():
            found = re.fullmatch(form, step)
            if found is not None:
                return act(self, *found.groups()) or ""
        raise AssertionError(f"no such step: {step}")

    def client(self, name: str) -> Client:
        if name not in self.clients:
            self.clients[name] = Client(coordinator=self.coordinator)
        return self.clients[name]

    def set(self, pairs: str) -> None:
        values = dict(pair.split("=") for pair in pairs.split())
        settings = {
            TRANSACTION_SETTINGS[name].field: TRANSACTION_SETTINGS[name].parse(value)
            for name, value in values.items()
        }
        self.coordinator = Coordinator(TransactionSettings(**settings))  # type: ignore[arg-type]

    def describe(self, name: str, generation: str | None, id: str | None, time: str | None) -> None:
        client = self.client(name)
        client.generation = int(generation or 2)
        client.transactional_id = id or "t"
        client.timeout_ms = 60_000 if time is None else milliseconds(time)

    def begin(self, name: str, options: str) -> str:
        client = self.client(name)
        error = reply_of(
            lambda: client.init(
                trade_in="trading in" in options,
                two_phase="two-phase" in options,
                keep="keeping" in options,
                version=version_in(options) or 6,
            )
        )
        if error != "ok":
            return error
        kept = "" if client.ongoing is None else f", keeps {identity_text(client.ongoing)}"
        return identity_text(client.identity) + kept

    def add(self, name: str, named: str, options: str) -> str:
        return reply_of(lambda: self.client(name).add(*named.split(), version=version_in(options)))

    def verify(self, name: str, named: str) -> str:
        return " ".join(map(error_text, self.client(name).verify(*named.split())))

    def end(self, name: str, verb: str, options: str) -> str:
        client, version = self.client(name), version_in(options)
        act = client.commit if verb == "commits" else client.abort
        reply = reply_of(lambda: act(version=version))
        has_identity = client.generation == 2 and version is None
        return identity_text(client.identity) if reply == "ok" and has_identity else reply

    def copy(self, name: str, other: str) -> None:
        self.clients[name] = self.client(other).copy()

    def write(self, only: str | None) -> str:
        if only is None:
            self.reported, self.coordinator.sent = self.coordinator.sent, []
            return told([self.coordinator.report(markers) for markers in self.reported])
        some = partitions(*only.split())
        return told([self.coordinator.report(sent, only=some) for sent in self.coordinator.sent])

    def report_again(self) -> str:
        return told([self.coordinator.report(markers) for markers in self.reported])

    def fail_over(self, compacted: str | None) -> None:
        self.coordinator.fail_over(is_compacted=compacted is not None)

    def break_journal(self, verb: str) -> None:
        self.coordinator.journal.is_broken = verb == "refuses"

    def limit_producer_ids(self, verb: str) -> None:
        self.coordinator.producer_ids_left = 0 if verb == "run out" else NEVER_MS

    def wear_out(self, id: str, epoch: str) -> None:
        self.coordinator.wear_out(id, epoch=int(epoch))
        for client in self.clients.values():
            if client.transactional_id == id:
                client.identity = self.coordinator.transaction(id).identity

    def see(self, id: str, what: str) -> None:
        assert self.seen(id) == what, self.seen(id)

    def seen(self, id: str) -> str:
        transaction = self.coordinator.shard.transactions.get(id)
        if transaction is None:
            return "gone"
        words = [transaction.state.word, identity_text(transaction.identity)]
        return " ".join(words + [str(partition) for partition in transaction.partitions])


STEPS: dict[str, Callable[..., str | None]] = {
    r"settings (.*)": Run.set,
    r"(\w+) is(?: of generation (\d))?,?(?: named (\S+?))?,?(?: with (\d+ \w+))?": Run.describe,
    r"(\w+) begins(.*)": Run.begin,
    r"(\w+) adds ([^,]*)(.*)": Run.add,
    r"(\w+) verifies (.*)": Run.verify,
    r"(\w+) (commits|aborts)(.*)": Run.end,
    r"(\w+) knows what (\w+) knows": Run.copy,
    r"markers (?:of (.*) )?are written": Run.write,
    r"old markers are reported": Run.report_again,
    r"(\d+ \w+) pass": lambda run, time: run.coordinator.pass_time(milliseconds(time)),
    r"the coordinator fails over( with a compacted journal)?": Run.fail_over,
    r"the journal (refuses|recovers)": Run.break_journal,
    r"producer ids (run out|come back)": Run.limit_producer_ids,
    r"(\S+) is worn to (\d+)": Run.wear_out,
    r"(\S+) is (\w+.*)": Run.see,
}


def reply_of(act: Callable[[], ErrorCode]) -> str:
    try:
        return error_text(act())
    except NoReply as error:
        return NOT_REPLIES.get(error.why, "needs a producer id")


NOT_REPLIES: dict[NotDone | None, str] = {NotDone.APPEND_FAILED: "not journalled"}


def error_text(error: ErrorCode) -> str:
    return "ok" if error == ErrorCode.NONE else error.name


def identity_text(identity: tuple[int, int] | None) -> str:
    assert identity is not None
    return f"{identity[0]}:{identity[1]}"


def shown(markers: SendMarkers) -> str:
    outcome = "commit" if markers.commit else "abort"
    identity = f"{markers.producer_id}:{markers.producer_epoch}"
    return f"sends {outcome} {identity} to {' '.join(map(str, markers.partitions))}"


def told(completed: list[bool]) -> str:
    return " ".join("complete" if is_complete else "not complete" for is_complete in completed)


def version_in(options: str) -> int | None:
    found = re.search(r"version (\d+)", options)
    return None if found is None else int(found[1])


def milliseconds(text: str) -> int:
    number, unit = text.split()
    return int(number) * MS[unit]
