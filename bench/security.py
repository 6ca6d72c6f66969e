"""What security costs, beside Apache Kafka: `python bench/security.py tls --help`.

    tls         CPU for each GB that is written and read over TLS, and in plain text
    logins      log-ins a second; with --failed N what refused ones do to others
    acls        what 10,000 ACLs add to a small request
    strangers   what 1,000 connections that never log in do to those that have

Both brokers have the same certificates and users (`secured.py`), run at the same time on the
loopback and are asked in turn. Every run is a line of JSON in the file that --output names.
"""

import argparse
import io
import signal
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from compare import TABLE_WIDTH, machine
from loading import built_load
from rich.console import Console
from security_acls import measure_acls
from security_logins import measure_logins
from security_run import Run
from security_strangers import measure_strangers
from security_tls import measure_tls

QUESTIONS: dict[str, Callable[[Run], None]] = {
    "tls": measure_tls,
    "logins": measure_logins,
    "acls": measure_acls,
    "strangers": measure_strangers,
}


def main() -> None:
    arguments = parsed()
    assert isinstance(sys.stdout, io.TextIOWrapper)
    sys.stdout.reconfigure(line_buffering=True)  # so that a file can be followed
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # no broker is left behind
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = TABLE_WIDTH
    program = built_load()
    if isinstance(program, str):
        raise SystemExit(program)
    if arguments.output is None:
        arguments.output = Path(f"bench-security-{arguments.question}.jsonl")
    with tempfile.TemporaryDirectory(dir=arguments.folder, prefix="penstock-bench-") as folder:
        run = Run(arguments=arguments, program=program, folder=Path(folder), console=console)
        try:
            QUESTIONS[arguments.question](run)
        finally:
            if run.lines:
                run.write_lines()
    console.print(f"{machine()}; every run: {arguments.output}")


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    questions = parser.add_subparsers(dest="question", required=True)
    tls = question(questions, "tls", "CPU for each GB over TLS", rounds=8)
    tls.add_argument("--only", metavar="TEXT", help="cases whose name has this in it")
    logins = question(questions, "logins", "log-ins a second", rounds=5)
    logins.add_argument(
        "--failed",
        type=int,
        metavar="N",
        help="instead: N log-ins with a wrong password within a minute, and the round trips of "
        "one who is logged in, before and during",
    )
    logins.add_argument(
        "--listener",
        choices=("SASL_PLAINTEXT", "SASL_SSL"),
        default="SASL_PLAINTEXT",
        help="where they fail (default: %(default)s)",
    )
    acls = question(questions, "acls", "what ACLs add to a small request", brokers=False)
    acls.add_argument("--pairs", type=int, default=40, help="of on and off (default: %(default)s)")
    acls.add_argument("--entries", type=int, default=10_000, help="ACLs (default: %(default)s)")
    strangers = question(questions, "strangers", "those who never log in", rounds=5)
    strangers.add_argument(
        "--count", type=int, default=1000, help="of connections (default: %(default)s)"
    )
    return parser.parse_args()


def question(
    questions: "argparse._SubParsersAction[argparse.ArgumentParser]",
    name: str,
    help_text: str,
    *,
    rounds: int | None = None,
    brokers: bool = True,
) -> argparse.ArgumentParser:
    parser = questions.add_parser(name, help=help_text)
    parser.add_argument("--quick", action="store_true", help="once, with little: does it work?")
    if brokers:
        parser.add_argument("--broker", choices=("penstock", "kafka"), help="one of them alone")
    else:
        parser.set_defaults(broker="penstock")
    if rounds is not None:
        parser.add_argument("--rounds", type=int, default=rounds, help="(default: %(default)s)")
    parser.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", help="a setting of penstock's"
    )
    parser.add_argument("--folder", help="where brokers keep their data (default: the system's)")
    parser.add_argument(
        "--output", type=Path, help=f"every run (default: bench-security-{name}.jsonl)"
    )
    return parser


if __name__ == "__main__":
    main()
