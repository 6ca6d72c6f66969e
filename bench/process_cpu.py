"""The CPU that Spark and a node take, by who takes it: read from /proc, so on Linux alone.

The threads of tasks are told from the others of the JVM by their names, of which Linux keeps 15
characters. Spark ends Python workers that have been idle for a minute, and nobody is told what they
had used; so what is counted are those that are there at the end, by what each had used before, and
those that the JVM itself has waited for.
"""

import os
from collections.abc import Iterator, Mapping
from dataclasses import astuple, dataclass
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")
# "Executor task launch worker"; older Javas cut a name off, newer ones leave out its middle.
TASK_THREADS = ("Executo",)
COMPILER_AND_COLLECTOR = ("C1 Comp", "C2 Comp", "G1 ", "GC Thre", "VM Thread")


@dataclass(frozen=True, slots=True)
class Cpu:
    """In seconds."""

    tasks: float  # threads of the JVM that run tasks
    compiler: float  # its compiler and its garbage collector
    rest: float  # its other threads: planning, scheduling, the senders of a Kafka client
    python: float  # planners and workers; not the program that asks for all this
    node: float

    @property
    def total(self) -> float:
        return sum(astuple(self))


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What was used up to a moment, by the ids of threads and processes."""

    jvm: float
    waited_for: float  # processes that the JVM had started, and that have ended
    tasks: Mapping[int, float]
    compiler: Mapping[int, float]
    python: Mapping[int, float]
    children: frozenset[int]  # of the JVM itself, which waits for them
    node: float

    def since(self, earlier: "Look") -> Cpu:
        """Threads that have ended in between count among the rest of the JVM."""
        jvm = self.jvm - earlier.jvm
        tasks = _more(self.tasks, earlier.tasks)
        compiler = _more(self.compiler, earlier.compiler)
        python = _more(self.python, earlier.python) + self.waited_for - earlier.waited_for
        # What those had used before that the JVM has waited for since.
        python -= sum(earlier.python[one] for one in earlier.children - self.python.keys())
        return Cpu(tasks, compiler, jvm - tasks - compiler, python, self.node - earlier.node)


@dataclass(frozen=True, slots=True, kw_only=True)
class Processes:
    jvm: int
    node: int

    def look(self) -> Look:
        jvm, waited_for = _times(Path("/proc", str(self.jvm), "stat"))
        threads = list(_threads(self.jvm))
        parents = dict(_parents())
        return Look(
            jvm=jvm,
            waited_for=waited_for,
            tasks={at: used for at, name, used in threads if name.startswith(TASK_THREADS)},
            compiler={
                at: used for at, name, used in threads if name.startswith(COMPILER_AND_COLLECTOR)
            },
            python={
                one: sum(_times(Path("/proc", str(one), "stat")))
                for one in _below(self.jvm, parents)
            },
            children=frozenset(one for one, parent in parents.items() if parent == self.jvm),
            node=sum(_times(Path("/proc", str(self.node), "stat"))),
        )


def _more(now: Mapping[int, float], before: Mapping[int, float]) -> float:
    return sum(used - before.get(one, 0.0) for one, used in now.items())


def _threads(pid: int) -> Iterator[tuple[int, str, float]]:
    for thread in Path("/proc", str(pid), "task").iterdir():
        try:
            name = (thread / "comm").read_text(errors="replace")
        except (FileNotFoundError, ProcessLookupError):
            continue  # it has ended
        yield int(thread.name), name, _times(thread / "stat")[0]


def _parents() -> Iterator[tuple[int, int]]:
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            fields = _fields(process / "stat")
            if fields:
                yield int(process.name), int(fields[1])


def _below(pid: int, parents: Mapping[int, int]) -> set[int]:
    """The children of a process, and theirs."""
    found = {pid}
    while more := {one for one, parent in parents.items() if parent in found} - found:
        found |= more
    return found - {pid}


def _times(stat: Path) -> tuple[float, float]:
    """Of the process or thread itself, and of the children that it has waited for."""
    fields = _fields(stat)
    if not fields:
        return 0.0, 0.0
    user, system, user_of_children, system_of_children = map(int, fields[11:15])
    return (user + system) / TICKS, (user_of_children + system_of_children) / TICKS


def _fields(stat: Path) -> list[str]:
    """From the third on, since the second, a name in brackets, may hold anything; none if it has
    ended.
    """
    try:
        return stat.read_text(errors="replace").rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return []
