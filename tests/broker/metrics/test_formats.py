"""Which format a client gets."""

import pytest

from penstock.broker.metrics.exposition import Exposition
from penstock.metrics.family import counter

ERRORS = counter("errors_total", "Errors.")
OPEN_METRICS_NAME = "application/openmetrics-text"
OPEN_METRICS = f"{OPEN_METRICS_NAME};version=1.0.0"
# As Prometheus 2 and 3 ask.
PROMETHEUS_2 = f"{OPEN_METRICS},text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
PROMETHEUS_3 = (
    f"{OPEN_METRICS};escaping=allow-utf-8;q=0.6,text/plain;version=1.0.0;escaping=allow-utf-8;"
    "q=0.5,text/plain;version=0.0.4;q=0.3,*/*;q=0.1"
)


@pytest.mark.parametrize(
    ("accept", "content_type"),
    [
        ("", "text/plain; version=0.0.4"),
        ("*/*", "text/plain; version=0.0.4"),
        ("text/html", "text/plain; version=0.0.4"),
        (PROMETHEUS_2, "text/plain; version=0.0.4"),
        (PROMETHEUS_3, "text/plain; version=0.0.4"),
        ("text/plain; version=abc", "text/plain; version=0.0.4"),
        ("text/plain; version=1..0", "text/plain; version=0.0.4"),
        (f"text/plain; version={'9' * 5_000}", "text/plain; version=0.0.4"),
        (f"{OPEN_METRICS_NAME}; version=abc", "application/openmetrics-text; version=1.0.0"),
        (OPEN_METRICS, "application/openmetrics-text; version=1.0.0"),
    ],
)
def test_plain_text_is_sent_to_whoever_takes_it(accept: str, content_type: str) -> None:
    page = Exposition([ERRORS]).page([ERRORS.sample(3)], accept)
    assert page.content_type.startswith(content_type)
    assert "errors_total 3.0" in page.text.decode().splitlines()
