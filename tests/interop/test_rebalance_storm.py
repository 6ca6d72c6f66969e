"""Members come, leave and are killed at random; `bench/rebalance.py --storm` does it for longer."""

from rig.members.kinds import python_kind
from rig.members.member import PATIENCE_SECONDS
from rig.members.storm import Weather, rage


def test_consumer_rebalance_storm(group_bootstrap: str) -> None:
    """A storm ends with every partition owned once, and no record skipped."""
    weather = Weather(
        events_min=12,
        pause_seconds_max=0.5,
        seed=3,
        kinds=[python_kind("confluent_member", "cooperative-sticky")],
        settings={"session_timeout_ms": "1500", "heartbeat_interval_ms": "200"},
        settle_seconds_max=PATIENCE_SECONDS,
    )
    storm = rage(bootstrap=group_bootstrap, name="storm", weather=weather)
    assert storm.joins and storm.leaves and storm.kills
