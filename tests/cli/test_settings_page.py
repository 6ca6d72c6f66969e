"""docs/settings.md tells of every setting there is, and is what the declarations say."""

import re

from penstock.cli.settings_page import settings_page
from penstock.model.settings.broker import BROKER_SETTINGS
from penstock.model.settings.client_metrics import CLIENT_METRICS_SETTINGS
from penstock.model.settings.retired import RETIRED
from penstock.model.settings.single_group import SINGLE_GROUP_SETTINGS
from penstock.model.settings.topic import TOPIC_SETTINGS
from rig.source_tree import ROOT


def test_the_page_is_up_to_date() -> None:
    page = ROOT / "docs" / "settings.md"
    assert page.read_text("utf-8") == settings_page(), "run `make docs`"


def test_every_setting_has_a_row() -> None:
    named = set(re.findall(r"^\| `([^`]+)` \|", settings_page(), re.MULTILINE))
    of_resources = {*TOPIC_SETTINGS, *SINGLE_GROUP_SETTINGS, *CLIENT_METRICS_SETTINGS}
    assert named == {*BROKER_SETTINGS, *of_resources, *RETIRED}


def test_rows_have_as_many_cells_as_their_tables_have_columns() -> None:
    for table in re.findall(r"(?:^\|.*\n)+", settings_page(), re.MULTILINE):
        cells = {len(re.findall(r"(?<!\\)\|", line)) for line in table.splitlines()}
        assert len(cells) == 1
