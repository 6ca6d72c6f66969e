"""What `penstock top` draws: from rows and the size of the terminal to something rich prints. Pure.

Each section gives way on its own: columns that matter least are left out where the terminal is too
narrow, and rows are shared between sections where it is too low.
"""

from collections.abc import Sequence

from rich.cells import cell_len
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from penstock.cli.escape import escaped
from penstock.cli.table_widths import ColumnNeed, fitted
from penstock.cli.top_rows import NodeState, Picture, ProblemKind
from penstock.model.lazy_dataclass import dataclass

BETWEEN = 2  # characters between two columns
SECTION_LINES = 3  # of a section without its rows: an empty line, its title, its columns
KEYS = "q ends"
MILD = (ProblemKind.UNDER_REPLICATED, ProblemKind.ALERT)
UNITS = ("B", "kB", "MB", "GB", "TB", "PB")


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    name: str
    is_number: bool = False
    is_whole: bool = False  # a text that is never cut
    weight: int = 0  # where all columns do not fit, those of the highest weight go first


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    title: str
    total: int
    columns: Sequence[Column]
    rows: Sequence[Sequence[Text]]


def drawn(
    picture: Picture | None,
    *,
    width: int | None = None,
    height: int | None = None,
    top: int,
    status: str = "",
    away: str | None = None,
) -> RenderableType:
    """The whole view. Without a width or a height it takes what it needs. `status` ends the first
    line; `away` says why there is nothing newer than this picture.
    """
    head = _head(picture, status=status, away=away, width=width)
    if picture is None:
        return Group(*head)
    sections = [one for one in _sections(picture, top=top) if one.rows]
    wanted = [len(one.rows) for one in sections]
    if height is not None:
        room = height - len(head) - SECTION_LINES * len(sections)
        wanted = shared(wanted, max(room, len(sections)))
    parts: list[RenderableType] = list(head)
    for section, count in zip(sections, wanted, strict=True):
        parts += [Text(""), _title(section, count, width), _table(section, count, width)]
    return Group(*parts)


def shared(wanted: Sequence[int], available: int) -> list[int]:
    """So many rows for each section: one more for each in turn, until all have what they want or
    nothing is left.
    """
    given = [0] * len(wanted)
    while available > 0 and given != list(wanted):
        for index, wish in enumerate(wanted):
            if given[index] < wish and available > 0:
                given[index] += 1
                available -= 1
    return given


def natural_width(picture: Picture, *, top: int) -> int:
    """Wide enough for everything to be written in full."""
    widths = [120]
    for section in _sections(picture, top=top):
        needs = _needs(section, range(len(section.columns)), section.rows)
        widths.append(sum(one.width for one in needs) + BETWEEN * len(needs))
    widths += [cell_len(one.plain) for one in _head(picture, status="", away=None, width=None)]
    return max(widths)


def _head(
    picture: Picture | None, *, status: str, away: str | None, width: int | None
) -> list[Text]:
    lines = []
    if picture is None:
        lines.append(Text("penstock top  measuring"))
    else:
        controller = "-" if picture.controller is None else str(picture.controller)
        words = [
            "penstock top",
            f"cluster {escaped(picture.cluster_id or '-')}",
            f"controller {controller}",
        ]
        lines.append(Text("  ".join(words), style="bold"))
        counts = ", ".join(counted(kind, n) for kind, n in picture.problem_counts.items())
        none = "no problems" if not picture.unknown else "no problems in what is known"
        lines.append(Text(counts or none, style="red" if counts else "green"))
        lines += [Text(f"not known: {escaped(one)}", style="yellow") for one in picture.unknown[:3]]
    if away is not None:
        lines.append(Text(escaped(away), style="bold red"))
    if status:
        lines.append(Text(status, style="dim"))
    for line in lines:
        line.no_wrap = True
        if width is not None:
            line.truncate(width, overflow="ellipsis")
    return lines


def counted(kind: ProblemKind, count: int) -> str:
    if kind is ProblemKind.NODE:
        return f"{count} {'node' if count == 1 else 'nodes'} away"
    if kind is ProblemKind.ALERT:
        return f"{count} {'alert' if count == 1 else 'alerts'}"
    return f"{count} {kind.value}"


def _sections(picture: Picture, *, top: int) -> list[Section]:
    return [
        Section(
            title="nodes",
            total=len(picture.nodes),
            columns=(
                Column(name="id", is_number=True),
                Column(name="host"),
                Column(name="rack", weight=3),
                Column(name="controller", is_whole=True, weight=2),
                Column(name="leaders", is_number=True),
                Column(name="replicas", is_number=True, weight=1),
                Column(name="log", is_number=True),
                Column(name="state", is_whole=True),
            ),
            rows=[
                (
                    Text(str(one.node_id)),
                    _text(None if one.host is None else f"{one.host}:{one.port}"),
                    _text(one.rack),
                    Text("active" if one.is_controller else ""),
                    Text(str(one.leaders)),
                    Text(str(one.replicas)),
                    Text(_bytes(one.log_bytes)),
                    Text(
                        one.state.value, style="green" if one.state is NodeState.UP else "bold red"
                    ),
                )
                for one in picture.nodes
            ],
        ),
        Section(
            title="problems",
            total=len(picture.problems),
            columns=(
                Column(name="problem", is_whole=True),
                Column(name="about"),
                Column(name="detail", weight=1),
            ),
            rows=[
                (
                    Text(
                        one.kind.value,
                        style="yellow" if one.kind in MILD else "bold red",
                    ),
                    _text(one.about),
                    _text(one.detail),
                )
                for one in picture.problems[:top]
            ],
        ),
        Section(
            title="topics",
            total=len(picture.topics),
            columns=(
                Column(name="topic"),
                Column(name="partitions", is_number=True, weight=2),
                Column(name="records/s", is_number=True),
                Column(name="bytes/s", is_number=True),
                Column(name="size", is_number=True, weight=1),
            ),
            rows=[
                (
                    _text(one.name),
                    Text(str(one.partitions)),
                    Text(_count(one.records_per_second)),
                    Text(_bytes(one.bytes_per_second)),
                    Text(_bytes(one.size_bytes)),
                )
                for one in picture.topics[:top]
            ],
        ),
        Section(
            title="groups",
            total=len(picture.groups),
            columns=(
                Column(name="group"),
                Column(name="type", weight=2),
                Column(name="state", weight=1),
                Column(name="members", is_number=True),
                Column(name="lag", is_number=True),
            ),
            rows=[
                (
                    _text(one.group_id),
                    Text(one.kind),
                    _text(one.state),
                    Text(_count(one.members)),
                    Text(_count(one.lag)),
                )
                for one in picture.groups[:top]
            ],
        ),
    ]


def _title(section: Section, count: int, width: int | None) -> Text:
    whole = count >= section.total
    title = Text(
        section.title if whole else f"{section.title} ({count} of {section.total})", style="bold"
    )
    if width is not None:
        title.truncate(width, overflow="ellipsis")
    return title


def _table(section: Section, count: int, width: int | None) -> Table:
    rows = section.rows[:count]
    kept = list(range(len(section.columns)))
    while True:
        needs = _needs(section, kept, rows)
        between = BETWEEN * (len(kept) - 1)
        full = sum(one.width for one in needs)
        widths = fitted(needs, full if width is None else max(1, width - between))
        if widths is not None or len(kept) == 1:
            break
        # Of those that matter least, the last one; the first, which names the row, stays.
        kept.remove(max(kept[1:], key=lambda index: (section.columns[index].weight, index)))
    table = Table(box=None, pad_edge=False, padding=(0, BETWEEN, 0, 0))
    for place, index in enumerate(kept):
        column = section.columns[index]
        table.add_column(
            column.name,
            justify="right" if column.is_number else "left",
            width=None if widths is None else widths[place],
            no_wrap=True,
            overflow="ellipsis",
        )
    for row in rows:
        table.add_row(*(row[index] for index in kept))
    return table


def _needs(
    section: Section, kept: Sequence[int], rows: Sequence[Sequence[Text]]
) -> list[ColumnNeed]:
    return [
        ColumnNeed(
            width=max(cell_len(column.name), *(row[index].cell_len for row in rows), 0),
            may_shrink=not (column.is_number or column.is_whole),
        )
        for index, column in ((index, section.columns[index]) for index in kept)
    ]


def _text(value: str | None) -> Text:
    return Text("-" if value is None else escaped(value))


def _count(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f}"


def _bytes(value: float | None) -> str:
    """Three digits and a unit of 1000: `12.3 MB`."""
    if value is None:
        return "-"
    unit = 0
    while value >= 999.5 and unit < len(UNITS) - 1:
        value /= 1000
        unit += 1
    digits = 0 if unit == 0 or value >= 99.95 else 1 if value >= 9.995 else 2
    return f"{value:.{digits}f} {UNITS[unit]}"
