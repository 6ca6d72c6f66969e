"""CPU for each GB that is written and read over TLS 1.3, and the same in plain text beside it."""

import json
import math
from dataclasses import replace

from cases import encrypted_cases, is_named
from compare import Bench
from loading import write_templates
from report import Ledger
from security_run import Run

QUICK_BYTES = 8_000_000


def measure_tls(run: Run) -> None:
    """The rounds of compare.py over these cases; the ledger writes the runs."""
    cases = encrypted_cases()
    if run.arguments.only is not None:
        cases = [case for case in cases if is_named(case, run.arguments.only)]
    if not cases:
        raise SystemExit(f"no case is called {run.arguments.only}")
    if run.quick:
        cases = [replace(case, value_bytes=QUICK_BYTES, partitions=1) for case in cases]
    brokers = run.brokers()
    ledger = Ledger(run.arguments.output)
    templates = {case.name: write_templates(case, run.folder) for case in cases}
    bench = Bench(run.program, brokers, cases, templates, ledger, run.console)
    try:
        for broker in brokers:
            broker.start()
        bench.run(1 if run.quick else run.arguments.rounds, ends=math.inf)
    finally:
        for broker in brokers:
            broker.stop()
        ledger.close()
    title = f"least of {bench.rounds} rounds (median)"
    ledger.show(run.console, cases, [broker.name for broker in brokers], title)
    run.console.print("cipher suites: " + ", ".join(cipher_suites(run)))


def cipher_suites(run: Run) -> list[str]:
    """What each broker has chosen: costs of two suites would not compare."""
    found: dict[str, None] = {}
    for line in run.arguments.output.read_text(encoding="utf-8").splitlines():
        kept = json.loads(line)
        if kept["measured"]["cipher"]:
            found[f"{kept['broker']} {kept['measured']['cipher']}"] = None
    return list(found)
