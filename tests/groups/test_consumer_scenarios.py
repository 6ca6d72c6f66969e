"""Consumer groups do what the scenario files say, step by step."""

from pathlib import Path

import pytest

from rig.group_scenario import Scenario, scenarios_in
from rig.modern_scenario import ModernRun

FILES = sorted((Path(__file__).parent / "scenarios").glob("consumer_*.txt"))
CASES = [
    pytest.param(scenario, id=f"{path.stem}: {scenario.title}")
    for path in FILES
    for scenario in scenarios_in(path)
]


@pytest.mark.parametrize("scenario", CASES)
def test_scenario_goes_as_told(scenario: Scenario) -> None:
    ModernRun(scenario).play()
