"""`penstock serve`: a node as a process, or several nodes as child processes.

The loop policy, signals, garbage collection and limits of the process are set here and nowhere
else: a node that lives inside somebody's test must leave all that alone. Nothing that draws on a
terminal is imported, and of the client only the channel by which nodes reach each other.
"""

import asyncio
import gc
import logging
import os
import resource
import shlex
import signal
import sys
from pathlib import Path

import click

from penstock.cli.compiled import hot_modules_form
from penstock.cli.laid_out_nodes import METRICS_SETTING, laid_out_nodes
from penstock.cli.logs import LogFormat, log_to_stderr
from penstock.cli.node_processes import METRICS, NodeProcesses
from penstock.cli.options import parse_settings
from penstock.cli.secured_nodes import admin_file
from penstock.cli.typed_text import ANY_BYTES
from penstock.model.error import PenstockError
from penstock.model.events import NODE_STARTING, NODE_STOPPING
from penstock.model.limit import LAID_OUT_NODES_MAX
from penstock.model.settings.broker import BrokerSettings, parse_broker, without_effect
from penstock.model.settings.listener import PORT_MAX, listener_names
from penstock.model.settings.setting import items
from penstock.node.build import build
from penstock.node.cluster_layout import SETTINGS_FILE, laid_out_files
from penstock.node.config import NodeConfig
from penstock.records.walk import KERNEL
from penstock.world.clock import RealClock
from penstock.world.disk import RealDisk
from penstock.world.entropy import RealEntropy
from penstock.world.event_log import tell
from penstock.world.placeholders import resolved_settings
from penstock.world.properties import read_properties
from penstock.world.real import real_world

try:
    import uvloop
except ImportError:  # there is no build of it for this platform: asyncio's own loop serves
    uvloop = None  # type: ignore[assignment]  # a module, or None where there is none

# Few objects of a broker form cycles. With the default of 700 a collection runs many times a
# second and walks what was just allocated in vain.
GC_THRESHOLDS = (50_000, 20, 50)
OPEN_FILES_WANTED = 65_536
LOG_LEVELS = ("debug", "info", "warning", "error")

log = logging.getLogger("penstock.serve")


class ServeError(PenstockError):
    """The node can't be started as asked."""


@click.command()
@click.option(
    "--data",
    type=ANY_BYTES,
    default="./penstock-data",
    show_default=True,
    metavar="DIR",
    help="Where everything is stored; made and formatted if it is empty.",
)
@click.option(
    "--listen",
    metavar="HOST:PORT",
    help="Where clients connect; port 0 takes a free one.  [default: 127.0.0.1:9092]",
)
@click.option(
    "--config",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Settings from a Kafka server.properties.",
)
@click.option(
    "--set",
    "assignments",
    type=ANY_BYTES,
    multiple=True,
    metavar="NAME=VALUE",
    help="One setting by Kafka's name; repeatable, and stronger than --config.",
)
@click.option(
    "--metrics",
    metavar="HOST:PORT",
    help="Answer GET /metrics there, for Prometheus; a port alone is one of 127.0.0.1. With"
    " --nodes the first node has this port, and each further one the next.",
)
@click.option(
    "--log-level",
    type=click.Choice(LOG_LEVELS),
    default="info",
    show_default=True,
    help="Log events of this level and above.",
)
@click.option(
    "--log-format",
    type=click.Choice([one.value for one in LogFormat]),
    default=LogFormat.TEXT.value,
    show_default=True,
    help="How log lines are written: text for people, json for programs (docs/logs.md).",
)
@click.option(
    "--nodes",
    type=click.IntRange(min=1, max=LAID_OUT_NODES_MAX),
    default=1,
    show_default=True,
    metavar="N",
    help="Run a cluster of N nodes, each a process of its own with its settings in DIR/node-<id>.",
)
@click.option(
    "--port",
    type=click.IntRange(min=0, max=PORT_MAX),
    metavar="PORT",
    help="The first of the ports of --nodes, all on 127.0.0.1; 0 takes free ones.  [default: 9092]",
)
@click.option(
    "--secured",
    type=ANY_BYTES,
    metavar="DIR",
    help="With --nodes: lay out a secured cluster; certificates and the admin's settings go there.",
)
@click.option("--console", default="off", hidden=True)  # to come
def serve(
    data: str,
    listen: str | None,
    nodes: int,
    port: int | None,
    secured: str | None,
    config: Path | None,
    assignments: tuple[str, ...],
    metrics: str | None,
    log_level: str,
    log_format: str,
    console: str,
) -> None:
    """Run a node, or a cluster of several, until SIGTERM or Ctrl-C."""
    _refuse_optimised()
    if console != "off":
        raise ServeError(f"--console {console}: there is no console yet, leave it off")
    if nodes > 1 or secured is not None:
        _refuse_one_nodes_options(nodes, data=data, listen=listen, config=config)
        commands = laid_out_nodes(
            nodes,
            data_directory=data,
            port=port,
            settings=parse_settings(assignments, option="--set"),
            log_level=log_level,
            metrics=metrics,
            log_format=log_format,
            secured=secured,
            disk=RealDisk(),
            entropy=RealEntropy(),
            clock=RealClock(),
        )
        if secured is not None:
            _say(f"settings for the admin's clients: {admin_file(secured)}")
        sys.exit(asyncio.run(NodeProcesses(commands, say=_say, log=_log).run()))
    if port is not None:
        raise ServeError(f"--port {port} is for --nodes: pass --listen 127.0.0.1:{port}")
    settings = read_settings(listen=listen, config=config, assignments=assignments, metrics=metrics)
    if config is None and not settings.given.keys() & {"log.dirs", "log.dir"}:
        _refuse_laid_out(data)
    log_to_stderr(
        logging.getLevelNamesMapping()[log_level.upper()],
        log_format=LogFormat(log_format),
        node_id=settings.node_id,
    )
    tell(log, NODE_STARTING, node_id=settings.node_id, pid=os.getpid())
    log.info("record_kernel kind=%s", KERNEL.value)
    log.info("hot_modules kind=%s", hot_modules_form().value)
    idle = without_effect(settings)
    if idle:
        log.info("settings_without_effect names=%s", ",".join(idle))
    for retired in settings.retired:
        instead = f" instead={retired.instead}" if retired.instead else ""
        log.warning(
            "setting_ignored name=%s retired_since_kafka=%s%s", retired.name, retired.since, instead
        )
    if settings.unknown:
        log.warning("settings_unknown names=%s", ",".join(settings.unknown))
    _raise_open_files()
    gc.set_threshold(*GC_THRESHOLDS)
    node_config = NodeConfig(
        node_id=settings.node_id,
        data_directory=data,
        settings=settings,
        process_id=os.getpid(),
        config_file=None if config is None else str(config),
    )
    if uvloop is None:
        asyncio.run(run_node(node_config))
    else:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(run_node(node_config))


def read_settings(
    *,
    listen: str | None,
    config: Path | None,
    assignments: tuple[str, ...],
    metrics: str | None = None,
) -> BrokerSettings:
    """The file, then --set, then --listen and --metrics, each stronger than the one before. What
    placeholders in the first two stand for is read now, and not again.
    """
    from_file = {} if config is None else read_properties(config)
    values = resolved_settings({**from_file, **parse_settings(assignments, option="--set")})
    if metrics is not None:
        values[METRICS_SETTING] = metrics
    if listen is not None:
        # Clients connect there; where controllers are reached stays as it is.
        controllers = listener_names(values.get("controller.listener.names", ""))
        listeners = items(values.get("listeners", ""))
        kept = (one for one in listeners if one.partition("://")[0].upper() in controllers)
        values["listeners"] = ",".join((f"PLAINTEXT://{listen}", *kept))
    elif "listeners" not in values:
        values["listeners"] = "PLAINTEXT://127.0.0.1:9092"
    settings = parse_broker(values)
    if from_file and from_file.keys() <= set(settings.unknown):
        raise ServeError(
            f"--config {config} is no server.properties: not one name in it is that of a setting, "
            f"as {next(iter(from_file))!r}"
        )
    return settings


async def run_node(config: NodeConfig) -> None:
    """Starts a node, says so on standard output, and stops it cleanly when told to."""
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    node = build(real_world(), config)
    told = asyncio.ensure_future(stopping.wait())
    starting = asyncio.ensure_future(node.start())
    await asyncio.wait((starting, told), return_when=asyncio.FIRST_COMPLETED)
    if not starting.done():
        # It may wait for others for long, and has nothing yet that it could lose.
        log.info("stopped before it was ready")
        await node.kill()
        await asyncio.gather(starting, return_exceptions=True)
        return
    await starting
    # What stands now lives as long as the process: no collection need look at it again.
    gc.collect()
    gc.freeze()
    if node.metrics_address is not None:
        print(f"{METRICS}http://{node.metrics_address}/metrics", flush=True)
    print("penstock ready: " + ",".join(map(str, node.addresses)), flush=True)
    failed = asyncio.ensure_future(node.failed())
    try:
        await asyncio.wait((failed, told), return_when=asyncio.FIRST_COMPLETED)
    finally:
        told.cancel()
    if not failed.done():
        tell(log, NODE_STOPPING, node_id=config.node_id, reason="signal")
    await node.stop()
    failure = await failed
    if failure is not None:
        # The whole of it is in the log already.
        reason = " ".join(str(failure).split())
        raise ServeError(f"stopped by an error: {type(failure).__name__}: {reason}") from failure


def _refuse_one_nodes_options(
    nodes: int, *, data: str, listen: str | None, config: Path | None
) -> None:
    """What belongs to one node is in the file of each."""
    if listen is not None:
        port = listen.rpartition(":")[2]
        raise ServeError(
            f"--listen {listen} is the address of one node: pass --port {port} with --nodes {nodes}"
        )
    if config is not None:
        raise ServeError(
            f"--config {config} is the file of one node: with --nodes {nodes} each has its own,"
            f" {data}/node-<id>/{SETTINGS_FILE}; pass settings for all of them with --set"
        )


def _refuse_laid_out(data: str) -> None:
    """A directory with the nodes of a cluster is not that of one node."""
    files = laid_out_files(RealDisk(), data)
    if files:
        nodes, file = len(files), shlex.quote(next(iter(files.values())))
        raise ServeError(
            f"{data} holds {nodes} nodes of a cluster: start all of them with --nodes {nodes}, or"
            f" one with --config {file}"
        )


def _say(line: str) -> None:
    print(line, flush=True)


def _log(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _refuse_optimised() -> None:
    if sys.flags.optimize:
        raise ServeError(
            "python -O takes out the assertions that keep a node from going on with wrong data:"
            " run it without"
        )


def _raise_open_files() -> None:
    """As many descriptors as the system lets us have, up to what thousands of connections need."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = OPEN_FILES_WANTED if hard == resource.RLIM_INFINITY else min(OPEN_FILES_WANTED, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
