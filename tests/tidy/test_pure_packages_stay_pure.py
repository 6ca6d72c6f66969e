"""Rules live in code that only computes: no clock, no randomness, no I/O, no tasks, no logging.

What a test can run without a loop is what the simulator can run under every fault. The walk is
over the syntax tree, so it also sees the lines that no test reaches.
"""

import ast
from pathlib import Path

import pytest

from rig.source_tree import PACKAGE, imported_names, modules, parse, place

PURE = (
    "model",
    "wire",
    "records",
    "raft",
    "machine",
    "raft",
    "metadata",
    "replication",
    "groups",
    "transactions",
    "security",
    "planning",
    "metrics",
    "alerts",
    "tracing",
)
STORED = ("log",)
# Rules inside of a shell: what Spark is told, decides and reads, without Spark.
PURE_OF_SPARK = tuple(
    PACKAGE / "spark" / path
    for path in (
        "batch_identity.py",
        "dead_letter_headers.py",
        "dead_letter_replay.py",
        "options.py",
        "pipelines/cdc/latest_rows.py",
        "pipelines/cdc/pgoutput.py",
        "pipelines/cdc/record.py",
        "pipelines/cdc/source.py",
        "pipelines/cdc/source_topics.py",
        "pipelines/clickstream/rules.py",
        "pipelines/event_time_bounds.py",
        "pipelines/replay/pointer.py",
        "sink/actions.py",
        "sink/completion.py",
        "sink/decision.py",
        "sink/flows.py",
        "sink/names.py",
        "sink/options.py",
        "sink/record_change.py",
        "sink/single_writes.py",
        "source/fetch_reply.py",
        "source/idle.py",
        "source/options.py",
        "source/plan.py",
        "source/positions.py",
        "tables/batches.py",
    )
)
# The checks of the doctor, which are given what was seen.
ASKING = ("gather.py", "gather_metrics.py", "gather_groups.py", "questions.py")
PURE_OF_DOCTOR = tuple(path for path in modules("doctor") if path.name not in ASKING)

# The outside world, as the standard library and Spark offer it.
WORLDLY = frozenset(
    {
        "asyncio",
        "concurrent",
        "fcntl",
        "glob",
        "logging",
        "mmap",
        "multiprocessing",
        "os",
        "pathlib",
        "pyarrow",
        "pyspark",
        "queue",
        "random",
        "secrets",
        "select",
        "selectors",
        "shutil",
        "signal",
        "socket",
        "socketserver",
        "ssl",
        "subprocess",
        "tempfile",
        "threading",
        "time",
        "urllib",
        "uuid",
        "uvloop",
    }
)
WORLDLY_CALLS = frozenset({"open", "print", "input", "breakpoint"})
# Of our own world, rules may name what a port hands out and raises, and no port that is real.
WORLD_WORDS = frozenset({"penstock.world.ports", "penstock.world.errors"})
ASYNCHRONOUS = (
    ast.AsyncFunctionDef,
    ast.AsyncFor,
    ast.AsyncWith,
    ast.Await,
)


def name(path: Path) -> str:
    return str(path.relative_to(path.parents[2]))


@pytest.mark.parametrize(
    "path", (*modules(*PURE, *STORED), *PURE_OF_SPARK, *PURE_OF_DOCTOR), ids=name
)
def test_rules_reach_nothing_outside_themselves(path: Path) -> None:
    tree = parse(path)
    faults = [
        f"{place(path, node)}: imports {module}"
        for node, module in imported_names(tree)
        if module.split(".")[0] in WORLDLY
    ]
    for node in ast.walk(tree):
        if isinstance(node, ASYNCHRONOUS):
            faults.append(f"{place(path, node)}: {type(node).__name__}")
        elif (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id in WORLDLY_CALLS
        ):
            faults.append(f"{place(path, node)}: calls {node.func.id}()")
        elif isinstance(node, ast.Attribute) and node.attr in {"now", "utcnow", "today"}:
            faults.append(f"{place(path, node)}: reads the clock with .{node.attr}")
    assert not faults, "\n".join(faults)


@pytest.mark.parametrize("path", modules(*PURE, *STORED), ids=name)
def test_rules_know_the_ports_and_not_the_real_world(path: Path) -> None:
    faults = [
        f"{place(path, node)}: imports {module}"
        for node, module in imported_names(parse(path))
        if module.startswith("penstock.world") and module not in WORLD_WORDS
    ]
    assert not faults, "\n".join(faults)
