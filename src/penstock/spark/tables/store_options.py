"""How an object store is reached: the options of a Delta table that lies in one.

S3 has options by the names that Spark's own users know it by, Hadoop's `fs.s3a.*`; `deltalake` has
names for it and for other stores, and they pass as they are. A value may be a placeholder,
`${env:NAME}` or `${file:PATH:KEY}`, as in the files of Kafka's clients.

The options are read by the driver and go to the tasks with their work: executors need no
environment or files of their own, and Spark shows nothing of them in plans, UI or event log.
"""

import difflib
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from urllib.parse import urlsplit

from penstock.client.network.client_security import BadSecurity
from penstock.client.network.client_settings import read_client_settings, resolved
from penstock.spark.tables.errors import StoreError
from penstock.world.properties import BadProperties

S3_SCHEMES = ("s3", "s3a")
HADOOP = "fs."
SPARKS_PREFIX = "spark.hadoop."  # as spark-defaults.conf has Hadoop's names

ENDPOINT, ALLOW_HTTP = "AWS_ENDPOINT_URL", "AWS_ALLOW_HTTP"
UNSAFE = "AWS_S3_ALLOW_UNSAFE_RENAME"
CREDENTIALS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")
FROM_ENVIRONMENT = (*CREDENTIALS, ENDPOINT, ALLOW_HTTP, "AWS_REGION", "AWS_DEFAULT_REGION", UNSAFE)


def store_options(
    uri: str,
    told: Mapping[str, str] | None,
    *,
    config_file: str | None = None,
    environment: Mapping[str, str] = os.environ,
) -> dict[str, str]:
    """The options as `deltalake` has them; StoreError for what can't be obeyed.

    What is told takes precedence over the file, and both over the environment's variables of S3.
    """
    of_file = {} if config_file is None else _read(Path(config_file))
    found = _translated(of_file) | _translated(_resolved(told or {}))
    if urlsplit(uri).scheme not in S3_SCHEMES:
        return found
    upper = {name.upper() for name in found}
    # A session token belongs to the keys that it came with.
    other = CREDENTIALS if upper.intersection(CREDENTIALS) else ()
    for name in FROM_ENVIRONMENT:
        if name in environment and name not in upper and name not in other:
            found[name] = environment[name]
    return _for_s3(found)


def _for_s3(options: dict[str, str]) -> dict[str, str]:
    by_name = {name.upper(): value for name, value in options.items()}
    if by_name.get(UNSAFE, "false").lower() != "false":
        raise StoreError(
            f"{UNSAFE} would let two drivers commit one version of a table: batches are written "
            "once only where the store refuses the second (If-None-Match)"
        )
    if by_name.get(ENDPOINT, "").startswith("http://") and ALLOW_HTTP not in by_name:
        options[ALLOW_HTTP] = "true"
    return options


def _read(path: Path) -> dict[str, str]:
    try:
        return read_client_settings(path)
    except (BadSecurity, BadProperties) as error:
        raise StoreError(f"config_file: {error}") from error


def _resolved(told: Mapping[str, str]) -> dict[str, str]:
    try:
        return {name: resolved(value) for name, value in told.items()}
    except (BadSecurity, BadProperties) as error:
        raise StoreError(f"storage_options: {error}") from error


def _translated(options: Mapping[str, str]) -> dict[str, str]:
    found = {}
    for told, value in options.items():
        name = told.removeprefix(SPARKS_PREFIX)
        if not name.startswith(HADOOP):
            found[told] = value
        elif name in TRANSLATIONS:
            translated, read = TRANSLATIONS[name]
            found[translated] = read(name, value)
        else:
            close = difflib.get_close_matches(name, TRANSLATIONS, n=1)
            guess = f": did you mean {close[0]}?" if close else ""
            raise StoreError(f"there is no option {told}{guess}")
    return found


def _text(name: str, value: str) -> str:
    if not value.strip():
        raise StoreError(f"option {name} is empty")
    return value.strip()


def _address(name: str, value: str) -> str:
    """With its scheme: HTTP is for those who ask for it."""
    text = _text(name, value)
    return text if "://" in text else f"https://{text}"


def _denied(name: str, value: str) -> str:
    text = value.strip().lower()
    if text not in ("true", "false"):
        raise StoreError(f"option {name} is {value!r}: it can be true or false")
    return "false" if text == "true" else "true"


def _number(name: str, value: str) -> str:
    text = value.strip()
    if not (text.isascii() and text.isdigit()):
        raise StoreError(f"option {name} is {value!r}: it must be a whole number")
    return text


# Hadoop's name: that of `deltalake`, and how the value is read.
TRANSLATIONS: dict[str, tuple[str, Callable[[str, str], str]]] = {
    "fs.s3a.endpoint": (ENDPOINT, _address),
    "fs.s3a.endpoint.region": ("AWS_REGION", _text),
    "fs.s3a.access.key": ("AWS_ACCESS_KEY_ID", _text),
    "fs.s3a.secret.key": ("AWS_SECRET_ACCESS_KEY", _text),
    "fs.s3a.session.token": ("AWS_SESSION_TOKEN", _text),
    "fs.s3a.path.style.access": ("AWS_VIRTUAL_HOSTED_STYLE_REQUEST", _denied),
    "fs.s3a.attempts.maximum": ("max_retries", _number),
}
