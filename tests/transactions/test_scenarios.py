"""Each scenario in `scenarios/` goes as it is written; their form is told in rig."""

from pathlib import Path

import pytest

from rig.transaction_scenario import Run, Scenario, scenarios_in

CASES = [
    pytest.param(scenario, id=f"{path.stem}: {scenario.title}")
    for path in sorted((Path(__file__).parent / "scenarios").glob("*.txt"))
    for scenario in scenarios_in(path)
]


@pytest.mark.parametrize("scenario", CASES)
def test_goes_as_written(scenario: Scenario) -> None:
    Run().play(scenario)
