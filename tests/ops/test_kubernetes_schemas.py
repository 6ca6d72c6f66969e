"""The manifests have the fields that Kubernetes' schemas have, and no others."""

from copy import deepcopy
from typing import Any

import kubernetes_validate
import pytest

from rig.ops_files import manifest, manifests

VERSION = kubernetes_validate.latest_version()


@pytest.mark.parametrize("one", manifests(), ids=lambda one: str(one["kind"]))
def test_it_is_valid(one: dict[str, Any]) -> None:
    kubernetes_validate.validate(one, VERSION, strict=True)


def test_a_field_that_is_not_there_is_refused() -> None:
    wrong = deepcopy(manifest("StatefulSet"))
    wrong["spec"]["template"]["spec"]["terminationGracePeriod"] = 180
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(wrong, VERSION, strict=True)
