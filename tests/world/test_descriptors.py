"""Files and connections share what descriptors there are."""

import pytest

from penstock.model import limit
from penstock.world import descriptors


@pytest.mark.parametrize("allowed", [64, 100, 256, 1024, 65_536])
def test_both_have_some_and_together_no_more_than_there_are(
    monkeypatch: pytest.MonkeyPatch, allowed: int
) -> None:
    monkeypatch.setattr(descriptors, "allowed", lambda: allowed)
    files, connections = descriptors.open_files_max(), descriptors.connection_descriptor_max() + 1
    assert 1 <= files <= limit.OPEN_FILES_MAX
    assert connections >= allowed // 2
    assert files + connections < allowed


def test_where_there_are_plenty_files_have_their_full_share(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for allowed in (65_536, None):
        monkeypatch.setattr(descriptors, "allowed", lambda allowed=allowed: allowed)
        assert descriptors.open_files_max() == limit.OPEN_FILES_MAX
