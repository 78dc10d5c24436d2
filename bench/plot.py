"""Lines over a logarithmic axis as an SVG, written by hand: a panel for each axis, a line for each measure.

The vertical axis is logarithmic, too, and shows the ratio to a line's first point: a flat line has not grown. The
drawing follows the reader's choice of light or dark.
"""

from dataclasses import dataclass
from html import escape
from math import ceil, floor, log2, log10

WIDTH, PANEL_WIDTH, PANEL_HEIGHT, COLUMNS = 900, 430, 240, 2
_LEFT, _RIGHT, _TOP, _BOTTOM = 52, 14, 34, 34
_LEGEND, _GAP = 56, 12
_STYLE = """
text { font: 12px system-ui, sans-serif; fill: #1f2328; }
.title { font-weight: 600; }
.axis { stroke: #8c959f; } .grid { stroke: #d0d7de; } .one { stroke: #57606a; stroke-dasharray: 2 3; }
.line { fill: none; stroke-width: 2; } .dashed { stroke-dasharray: 6 4; }
.c0 { stroke: #0969da; } .c1 { stroke: #bc4c00; } .c2 { stroke: #1a7f37; }
circle { stroke-width: 2; fill: #ffffff; }
.paper { fill: #ffffff; }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3; } .paper, circle { fill: #0d1117; }
  .axis { stroke: #6e7681; } .grid { stroke: #30363d; } .one { stroke: #8b949e; }
  .c0 { stroke: #58a6ff; } .c1 { stroke: #f0883e; } .c2 { stroke: #3fb950; }
}
"""


@dataclass(frozen=True, slots=True)
class Line:
    """The values measured at each step; lines of one colour belong together."""

    name: str
    points: list[tuple[float, float]]
    colour: int
    is_dashed: bool = False

    @property
    def ratios(self) -> list[tuple[float, float]]:
        first = self.points[0][1]
        return [(x, y / first) for x, y in self.points]


@dataclass(frozen=True, slots=True)
class Panel:
    title: str
    lines: list[Line]


def draw(panels: list[Panel]) -> str:
    """The whole drawing, with one legend for all panels."""
    rows = ceil(len(panels) / COLUMNS)
    height = rows * PANEL_HEIGHT + _LEGEND
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" '
        'aria-label="Cost relative to the smallest size">',
        f"<style>{_STYLE}</style>",
        f'<rect class="paper" width="{WIDTH}" height="{height}"/>',
    ]
    for index, panel in enumerate(panels):
        x = index % COLUMNS * (PANEL_WIDTH + _GAP)
        parts += [f'<g transform="translate({x} {index // COLUMNS * PANEL_HEIGHT})">', *_panel(panel), "</g>"]
    parts += _legend(panels, rows * PANEL_HEIGHT)
    return "\n".join([*parts, "</svg>", ""])


def _panel(panel: Panel) -> list[str]:
    drawn = [(line, line.ratios) for line in panel.lines if len(line.points) > 1 and line.points[0][1] > 0]
    xs = [x for _, points in drawn for x, _ in points]
    ys = [y for _, points in drawn for _, y in points if y > 0]
    if not xs:
        return [f'<text class="title" x="{_LEFT}" y="20">{escape(panel.title)}: too few points</text>']
    low_x, high_x = floor(log10(min(xs))), max(ceil(log10(max(xs))), floor(log10(min(xs))) + 1)
    low_y, high_y = min(-1, floor(log2(min(ys)))), max(1, ceil(log2(max(ys))))

    def at_x(x: float) -> float:
        return _LEFT + (log10(x) - low_x) / (high_x - low_x) * (PANEL_WIDTH - _LEFT - _RIGHT)

    def at_y(y: float) -> float:
        return _TOP + (high_y - log2(y)) / (high_y - low_y) * (PANEL_HEIGHT - _TOP - _BOTTOM)

    parts = [f'<text class="title" x="{_LEFT}" y="20">{escape(panel.title)}</text>']
    for power in range(low_y, high_y + 1, max(1, (high_y - low_y) // 6)):
        y = at_y(2.0**power)
        kind = "one" if power == 0 else "grid"
        parts.append(f'<line class="{kind}" x1="{_LEFT}" x2="{PANEL_WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text x="{_LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{2.0**power:g} ×</text>')
    bottom = PANEL_HEIGHT - _BOTTOM
    parts.append(f'<line class="axis" x1="{_LEFT}" x2="{PANEL_WIDTH - _RIGHT}" y1="{bottom}" y2="{bottom}"/>')
    parts += [
        f'<text x="{at_x(10.0**power):.1f}" y="{bottom + 18}" text-anchor="middle">{10**power:,}</text>'
        for power in range(low_x, high_x + 1)
    ]
    for line, points in drawn:
        parts += _line(line, [(at_x(x), at_y(y)) for x, y in points if y > 0])
    return parts


def _line(line: Line, points: list[tuple[float, float]]) -> list[str]:
    kind = f"line c{line.colour}{' dashed' if line.is_dashed else ''}"
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    dots = [f'<circle class="c{line.colour}" cx="{x:.1f}" cy="{y:.1f}" r="3"/>' for x, y in points]
    return [f'<polyline class="{kind}" points="{path}"/>', *dots]


def _legend(panels: list[Panel], top: int) -> list[str]:
    lines = {line.name: line for panel in panels for line in panel.lines}
    parts = []
    for index, line in enumerate(lines.values()):
        x, y = _LEFT + index % 3 * 270, top + 14 + index // 3 * 22
        kind = f"line c{line.colour}{' dashed' if line.is_dashed else ''}"
        parts.append(f'<line class="{kind}" x1="{x}" x2="{x + 34}" y1="{y}" y2="{y}"/>')
        parts.append(f'<text x="{x + 42}" y="{y + 4}">{escape(line.name)}</text>')
    return parts
