"""`--watch` of commands that show a cluster, on an Apache Kafka as on Penstock."""

import pytest

from rig.apache_kafka.broker import ApacheKafka
from rig.live_terminal import LiveTerminal

# A line that each view of a quiet broker has.
LINES = {
    "cluster describe --interval 0.2": "feature",
    "cluster quorum --interval 0.2": "leader",
    "cluster log-dirs --interval 0.2": "online",
}


@pytest.mark.parametrize("command", LINES)
def test_a_view_of_kafka_is_redrawn_until_q(command: str, apache_kafka: ApacheKafka) -> None:
    words = [*command.split(), "--watch", "--bootstrap", apache_kafka.bootstrap]
    with LiveTerminal(words) as terminal:
        first = terminal.until(
            "a view", lambda lines: any(LINES[command] in line for line in lines)
        )
        terminal.until("another one", lambda lines: lines[0] != first[0])
        terminal.press(b"q")
        assert terminal.end() == 0
