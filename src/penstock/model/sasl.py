"""The SASL mechanisms that are known here, by the names that settings and handshakes use."""

from enum import Enum, IntEnum


class Mechanism(Enum):
    PLAIN = "PLAIN"
    SCRAM_SHA_256 = "SCRAM-SHA-256"
    SCRAM_SHA_512 = "SCRAM-SHA-512"
    OAUTHBEARER = "OAUTHBEARER"

    def __str__(self) -> str:
        return self.value


class ScramMechanism(IntEnum):
    """The two of them that have credentials in the metadata, by Kafka's numbers."""

    SCRAM_SHA_256 = 1
    SCRAM_SHA_512 = 2

    @property
    def mechanism(self) -> Mechanism:
        return Mechanism[self.name]

    def __str__(self) -> str:
        return self.mechanism.value


def mechanism_named(text: str) -> Mechanism:
    """ValueError, with the names there are, for any other."""
    try:
        return Mechanism(text.strip().upper())
    except ValueError:
        known = ", ".join(one.value for one in Mechanism)
        raise ValueError(
            f"{text.strip()!r} is no SASL mechanism that is known here: {known}"
        ) from None
