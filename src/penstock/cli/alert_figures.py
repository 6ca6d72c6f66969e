"""The figures of alerts as text, by their units."""

from penstock.alerts.report import Report
from penstock.alerts.rule import Unit
from penstock.cli.times import duration_text


def figure_text(report: Report) -> str | None:
    value = report.value
    if value is None:
        return None
    match report.unit:
        case Unit.SECONDS.value:
            return seconds_text(value)
        case Unit.MILLISECONDS.value:
            return f"{value:.0f}ms"
        case Unit.RATIO.value:
            return f"{value * 100:.3g}%"
        case Unit.PER_SECOND.value:
            return f"{value:.0f}/s"
    return f"{value:g}"


def seconds_text(value: float) -> str:
    """A certificate that has expired has less than nothing left."""
    whole = abs(round(value))
    text = f"{whole}s" if whole < 60 else duration_text(whole * 1000)
    return f"-{text}" if value < 0 and whole else text
