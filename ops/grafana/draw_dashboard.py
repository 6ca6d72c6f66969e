"""Draws the dashboard as one SVG file, with figures of running nodes, where there is no Grafana.

    python ops/grafana/draw_dashboard.py --for 60 http://127.0.0.1:9404/metrics ... >dashboard.svg

Nodes are asked once a second; every panel stands where Grafana shows it, with the same expression.
"""

import argparse
import json
import math
import re
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit
from xml.sax.saxutils import escape

from prometheus_client.parser import text_string_to_metric_families

from promql_values import Labels, Scrape, Vector, evaluate

BOARD = Path(__file__).with_name("penstock.json")
JOB = "penstock"
RATE_SCRAPES = 4  # Grafana's $__rate_interval is four intervals between scrapes
TIMEOUT_S = 10

# A cell of Grafana's grid, of which a board is 24 wide.
COLUMNS, CELL_X, CELL_Y = 24, 50, 32
PADDING, TITLE_Y, LEGEND_Y, AXIS_X = 8, 20, 13, 64
LEGEND_MAX = 6
COLORS = ("#3274d9", "#e0752d", "#37872d", "#a352cc", "#c4162a", "#1f8a8a", "#8a6d1f", "#666666")
PREFIXES = ((1e9, "G"), (1e6, "M"), (1e3, "k"))


@dataclass(slots=True, kw_only=True)
class Series:
    legend: str
    points: list[tuple[float, float]] = field(default_factory=list)  # seconds, value


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    kind: str  # row, stat or timeseries
    title: str
    unit: str
    place: Mapping[str, int]  # x, y, w and h, in cells
    series: Sequence[Series]


def scraped(urls: Sequence[str], *, at_s: float) -> Scrape:
    """What these nodes tell now, with the labels that Prometheus adds. One that does not answer is
    not up.
    """
    samples: dict[str, Vector] = {}
    for url in urls:
        target = {"job": JOB, "instance": urlsplit(url).netloc}
        up = samples.setdefault("up", {})
        try:
            with urllib.request.urlopen(url, timeout=TIMEOUT_S) as answer:
                page = answer.read().decode("utf-8")
        except (urllib.error.URLError, TimeoutError):
            up[frozenset(target.items())] = 0.0
            continue
        up[frozenset(target.items())] = 1.0
        for family in text_string_to_metric_families(page):
            for sample in family.samples:
                labels = frozenset({**sample.labels, **target}.items())
                samples.setdefault(sample.name, {})[labels] = sample.value
    return Scrape(at_s=at_s, samples=samples)


def panels(board: Mapping[str, object], scrapes: Sequence[Scrape]) -> list[Panel]:
    """All of the board, with their series over the time of the scrapes."""
    found = []
    listed = board["panels"]
    assert isinstance(listed, list)
    for panel in listed:
        series: dict[str, Series] = {}
        for target in panel.get("targets", ()):
            for legend, at_s, value in _values(target, scrapes):
                series.setdefault(legend, Series(legend=legend)).points.append((at_s, value))
        found.append(
            Panel(
                kind=panel["type"],
                title=panel["title"],
                unit=panel.get("fieldConfig", {}).get("defaults", {}).get("unit", "short"),
                place=panel["gridPos"],
                series=list(series.values()),
            )
        )
    return found


def _values(
    target: Mapping[str, str], scrapes: Sequence[Scrape]
) -> Iterator[tuple[str, float, float]]:
    text = target["expr"].replace("$job", JOB)
    interval_s = RATE_SCRAPES * _interval_s(scrapes)
    for count in range(1, len(scrapes) + 1):
        at_s = scrapes[count - 1].at_s
        for labels, value in evaluate(text, scrapes[:count], interval_s=interval_s).items():
            if not math.isnan(value):
                yield _legend(target["legendFormat"], labels), at_s, value


def _interval_s(scrapes: Sequence[Scrape]) -> float:
    return (scrapes[-1].at_s - scrapes[0].at_s) / max(1, len(scrapes) - 1)


def _legend(form: str, labels: Labels) -> str:
    given = dict(labels)
    return re.sub(r"{{\s*(\w+)\s*}}", lambda match: given.get(match[1], ""), form).strip()


def drawn(every: Sequence[Panel]) -> str:
    """The text of the SVG file."""
    height = max(one.place["y"] + one.place["h"] for one in every) * CELL_Y
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{COLUMNS * CELL_X}" height="{height}"'
        ' font-family="sans-serif" font-size="11">',
        '<rect width="100%" height="100%" fill="#f4f5f5"/>',
    ]
    for panel in every:
        lines += _panel(panel)
    return "\n".join([*lines, "</svg>\n"])


def _panel(panel: Panel) -> Iterator[str]:
    x, y = panel.place["x"] * CELL_X, panel.place["y"] * CELL_Y
    width, height = panel.place["w"] * CELL_X, panel.place["h"] * CELL_Y
    if panel.kind == "row":
        yield _text(x + PADDING, y + height - PADDING, panel.title, size=15, weight="bold")
        return
    yield f'<g transform="translate({x} {y})">'
    yield (
        f'<rect x="2" y="2" width="{width - 4}" height="{height - 4}" fill="white"'
        ' stroke="#d8d9da"/>'
    )
    yield _text(PADDING, TITLE_Y, panel.title, weight="bold")
    if not panel.series:
        yield _text(PADDING, height / 2, "no data", color=COLORS[4])
    elif panel.kind == "stat":
        yield from _stat(panel, height)
    else:
        yield from _lines(panel, width=width, height=height)
    yield "</g>"


def _stat(panel: Panel, height: int) -> Iterator[str]:
    told = ", ".join(
        f"{one.legend} {_number(one.points[-1][1], panel.unit)}".strip() for one in panel.series
    )
    yield _text(PADDING, height * 0.7, told, size=30 if len(told) < 8 else 14, color=COLORS[2])


def _lines(panel: Panel, *, width: int, height: int) -> Iterator[str]:
    shown = sorted(panel.series, key=lambda one: -max(value for _, value in one.points))
    listed = shown[:LEGEND_MAX]
    top, left = TITLE_Y + PADDING, AXIS_X
    bottom, right = height - PADDING - LEGEND_Y * ((len(listed) + 2) // 2), width - PADDING
    times = [at_s for one in panel.series for at_s, _ in one.points]
    values = [value for one in panel.series for _, value in one.points]
    low, high = min(0.0, *values), max(values)
    high = high if high > low else low + 1
    start, span = min(times), max(max(times) - min(times), 1e-9)
    for part in (0.0, 0.5, 1.0):
        at = bottom - part * (bottom - top)
        yield f'<path d="M{left} {at:.1f}H{right}" stroke="#e4e5e6"/>'
        label = _number(low + part * (high - low), panel.unit)
        yield _text(left - 4, at + 4, label, anchor="end", color="#666")
    for index, one in enumerate(shown):
        points = [
            (
                left + (at_s - start) / span * (right - left),
                bottom - (value - low) / (high - low) * (bottom - top),
            )
            for at_s, value in one.points
        ]
        color = COLORS[index % len(COLORS)]
        if len(points) == 1:
            yield f'<circle cx="{points[0][0]:.1f}" cy="{points[0][1]:.1f}" r="2" fill="{color}"/>'
        else:
            path = " ".join(f"{at_x:.1f},{at_y:.1f}" for at_x, at_y in points)
            yield f'<polyline points="{path}" fill="none" stroke="{color}" stroke-width="1.5"/>'
    half = (width - 2 * PADDING) / 2
    for index, one in enumerate(listed):
        at_x, at_y = PADDING + (index % 2) * half, bottom + LEGEND_Y * (1 + index // 2)
        color = COLORS[index % len(COLORS)]
        told = f"{one.legend}  {_number(one.points[-1][1], panel.unit)}"
        yield f'<rect x="{at_x}" y="{at_y - 4}" width="10" height="3" fill="{color}"/>'
        yield _text(at_x + 14, at_y, _short(told, int((half - 14) / 6)), size=10)


def _short(text: str, length: int) -> str:
    return text if len(text) <= length else f"…{text[1 - length :]}"


def _text(
    x: float,
    y: float,
    text: str,
    *,
    size: int = 11,
    weight: str = "normal",
    color: str = "#222",
    anchor: str = "start",
) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" font-weight="{weight}" fill="{color}"'
        f' text-anchor="{anchor}">{escape(text)}</text>'
    )


def _number(value: float, unit: str) -> str:
    """As Grafana's units do, roughly."""
    if unit == "percentunit":
        return f"{100 * value:.3g} %"
    if unit in ("s", "ms"):
        seconds = value if unit == "s" else value / 1_000
        if abs(seconds) > 2 * 86_400:
            return f"{seconds / 86_400:.3g} d"
        return f"{seconds:.3g} s" if abs(seconds) >= 1 else f"{1_000 * seconds:.3g} ms"
    after = {"bytes": "B", "Bps": "B/s", "ops": "/s", "reqps": "/s"}.get(unit, "")
    for size, prefix in PREFIXES:
        if abs(value) >= size:
            return f"{value / size:.3g} {prefix}{after}"
    return f"{value:.3g} {after}".rstrip()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--for", dest="seconds", type=float, default=60, help="how long to look")
    parser.add_argument("urls", nargs="+", metavar="URL", help="where a node tells its metrics")
    given = parser.parse_args()
    scrapes: list[Scrape] = []
    until = time.monotonic() + given.seconds
    while not scrapes or time.monotonic() < until:
        scrapes.append(scraped(given.urls, at_s=time.time()))
        time.sleep(1)
    board = json.loads(BOARD.read_text("utf-8"))
    sys.stdout.write(drawn(panels(board, scrapes)))


if __name__ == "__main__":
    main()
