"""Option `configFile`: settings of the client from a file, as commands take with --command-config.

Spark shows the options of a query in its web UI and writes them to its event log. The settings of
a file are read by the driver's Python and go to the tasks with their work: Spark itself knows the
file's name and no more.
"""

from collections.abc import Mapping
from pathlib import Path

from penstock.client.network.client_security import BadSecurity
from penstock.client.network.client_settings import read_client_settings
from penstock.spark.options import (
    CONFIG_FILE,
    KAFKA,
    RESERVED,
    BadOption,
    ConnectionOptions,
    given,
)
from penstock.world.properties import BadProperties


def with_file(options: Mapping[str, str]) -> dict[str, str]:
    """The options, and the settings of the file that they name, if they name one; an option takes
    precedence. Settings that source and sink choose themselves are ignored in a file, which other
    clients may share.
    """
    own = {name: value for name, value in options.items() if name.lower() != CONFIG_FILE.lower()}
    paths = [value for name, value in options.items() if name not in own]
    if not paths:
        return own
    try:
        settings = read_client_settings(Path(paths[0]))
    except (BadSecurity, BadProperties) as error:
        raise BadOption(f"option {CONFIG_FILE}: {error}") from error
    of_file = {f"{KAFKA}{name}": value for name, value in settings.items()}
    taken = {name.lower() for name in own} | set(RESERVED)
    return {**own, **{name: value for name, value in of_file.items() if name not in taken}}


def connection_options(options: Mapping[str, str]) -> ConnectionOptions:
    """Of options that say how brokers are reached and nothing else."""
    return given(with_file(options), known=()).connection()
