"""Which names a topic may have, and which two names a metric could not tell apart."""

import re

from penstock.model.limit import TOPIC_NAME_LENGTH_MAX

TRANSACTION_TOPIC = "__transaction_state"
INTERNAL_TOPICS = frozenset({"__consumer_offsets", TRANSACTION_TOPIC, "__share_group_state"})
OWN_TOPICS_PREFIX = (
    "__penstock_"  # of topics that Penstock itself makes, by a producer like any other
)
# `commerce.dead-letters` of our pipelines, `orders.DLT` of Spring, `dlq-orders`, `ordersDLQ`.
_DEAD_LETTERS = re.compile(
    r"(?:^|[._-])(?:dlq|dlt|dead[._-]?letters?(?:[._-]?(?:queue|topic))?)(?:[._-]|$)|DL[QT]$",
    re.IGNORECASE,
)
_LEGAL = re.compile(r"[a-zA-Z0-9._-]+\Z")


def topic_name_error(name: str) -> str | None:
    """Why a topic cannot have this name, or None when it can."""
    if not name:
        return "Topic name is invalid: the empty string is not allowed"
    if name in (".", ".."):
        return "Topic name is invalid: '.' or '..' is not allowed"
    if len(name) > TOPIC_NAME_LENGTH_MAX:
        return (
            f"Topic name is invalid: the length of '{name[:TOPIC_NAME_LENGTH_MAX]}...' "
            f"is longer than the max allowed length {TOPIC_NAME_LENGTH_MAX}"
        )
    if _LEGAL.match(name) is None:
        return (
            f"Topic name is invalid: '{name}' contains one or more characters other than "
            "ASCII alphanumerics, '.', '_' and '-'"
        )
    return None


def is_of_the_system(name: str) -> bool:
    """Whether users meet the topic only where they ask for those of the system too."""
    return name in INTERNAL_TOPICS or name.startswith(OWN_TOPICS_PREFIX)


def holds_dead_letters(name: str) -> bool:
    """By its name, which is all that tells such a topic from others."""
    return not is_of_the_system(name) and _DEAD_LETTERS.search(name) is not None


def collision_key(name: str) -> str:
    """Two topics with one key are one in metrics, where '.' becomes '_': the second is refused."""
    return name.replace(".", "_")
