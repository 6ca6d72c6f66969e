"""What rig.promql finds in an expression, and what it refuses."""

import pytest

from rig.promql import BadExpression, Selected, selected


def one(name: str, wanted: str = "", kept: str | None = None) -> Selected:
    return Selected(
        name=name,
        wanted=frozenset(wanted.split()),
        kept=None if kept is None else frozenset(kept.split()),
    )


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("a > 0", [one("a")]),
        ('up{job=~"p.*", x="}"} == 0', [one("up", "job x")]),
        ("1 - free / total > 0.8", [one("free"), one("total")]),
        ("end - time() < 14 * 86400", [one("end")]),
        ("sum by (job) (a) != 1", [one("a", "job", "job")]),
        ("max(a)", [one("a", kept="")]),
        (
            "sum by (topic) (max by (topic, part) (rate(a[1m])))",
            [one("a", "topic part", "topic")],
        ),
        (
            'topk(10, sum by (g) (a{job="$job"}))',
            [one("a", "g job", "g")],
        ),
        ("max(a) - on () group_right () b", [one("a", kept=""), one("b")]),
        (
            "max by (g) (a) == 0 and on (g) max by (g) (b) > 60",
            [one("a", "g", "g"), one("b", "g", "g")],
        ),
        (
            "sum by (g) (max by (t) (a) - on (t) group_right () max by (g, t) (b))",
            [one("a", "t", "g"), one("b", "g t", "g")],
        ),
        (
            "sum by (t) (a unless a offset 5m and on (i) (b offset 5m == 1)) > 0",
            [one("a", "i t", "t"), one("a", "i", "t"), one("b", "i", "t")],
        ),
        (
            "histogram_quantile(0.99, sum by (le) (rate(a_bucket[$__rate_interval])))",
            [one("a_bucket", "le", "le")],
        ),
    ],
)
def test_metrics_and_labels_are_found(text: str, found: list[Selected]) -> None:
    assert selected(text) == found


@pytest.mark.parametrize(
    "text",
    [
        "sum by (group) (max by (topic) (a))",  # the group is lost on the way
        "rates(a[5m])",
        "sum(a",
        "a)",
        "sum by (x",
        "sum a",
        "a{b=c}",
        "a[5 minutes]",
        "a @ 5",
        "a offset 5",
    ],
)
def test_what_is_not_understood_is_refused(text: str) -> None:
    with pytest.raises(BadExpression):
        selected(text)
