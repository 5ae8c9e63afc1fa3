"""Draws lines and points over two logarithmic axes, as SVG, with the library that writes the pages of reports."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import jinja2

Point = tuple[float, float]

_WIDTH: Final = 460
_HEIGHT: Final = 300
_HUES: Final = ("#1f5f8b", "#b4541a", "#3d7a37", "#7a3b7a")
_TEMPLATE: Final = """\
<svg xmlns="http://www.w3.org/2000/svg" width="{{ width + 90 }}" height="{{ panels|length * (height + 80) }}" \
viewBox="-60 0 {{ width + 90 }} {{ panels|length * (height + 80) }}" font-family="system-ui,sans-serif" font-size="12">
<rect x="-60" width="100%" height="100%" fill="#fff"/>
{% for panel in panels %}
<g transform="translate(0 {{ loop.index0 * (height + 80) + 30 }})">
<text y="-12" font-weight="700">{{ panel.title }}</text>
{% for place, label in panel.columns %}
<path d="M{{ place }} 0V{{ height }}" stroke="#ddd"/>
<text x="{{ place }}" y="{{ height + 16 }}" text-anchor="middle">{{ label }}</text>
{% endfor %}
{% for place, label in panel.rows %}
<path d="M0 {{ place }}H{{ width }}" stroke="#ddd"/>
<text x="-6" y="{{ place + 4 }}" text-anchor="end">{{ label }}</text>
{% endfor %}
<text x="{{ width / 2 }}" y="{{ height + 34 }}" text-anchor="middle">{{ panel.unit }}</text>
{% for line in panel.lines %}
<path d="{{ line.path }}" fill="none" stroke="{{ line.hue }}" stroke-width="2"/>
<text x="8" y="{{ 16 * loop.index }}" fill="{{ line.hue }}" font-weight="700">{{ line.name }}</text>
{% for x, y in line.points %}
<circle cx="{{ x }}" cy="{{ y }}" r="4" fill="#fff" stroke="{{ line.hue }}" stroke-width="2"/>
{% endfor %}
{% endfor %}
</g>
{% endfor %}
</svg>
"""


@dataclass(frozen=True)
class Line:
    """What is computed, and what was measured of it.

    Attributes:
        name: What it is.
        computed: Points from left to right, all numbers above 0.
        measured: Points that are drawn as circles.
    """

    name: str
    computed: Sequence[Point]
    measured: Sequence[Point] = field(default=())


@dataclass(frozen=True)
class Panel:
    """Lines over the same axes.

    Attributes:
        title: What the vertical axis shows.
        unit: What the horizontal axis counts.
        lines: The lines, at most four.
    """

    title: str
    unit: str
    lines: Sequence[Line]


def draw(panels: Sequence[Panel]) -> str:
    """Draw panels below each other.

    Args:
        panels: The panels.

    Returns:
        An SVG file.
    """
    template = jinja2.Environment(autoescape=True, trim_blocks=True).from_string(_TEMPLATE)
    return template.render(panels=list(map(_place, panels)), width=_WIDTH, height=_HEIGHT)


def _place(panel: Panel) -> Mapping[str, object]:
    points = [point for line in panel.lines for point in (*line.computed, *line.measured)]
    across, up = ([math.log10(point[axis]) for point in points] for axis in (0, 1))
    left, right, low, high = (
        math.floor(min(across)),
        math.ceil(max(across)),
        math.floor(min(up)),
        math.ceil(max(up)),
    )

    def place(point: Point) -> Point:
        x, y = map(math.log10, point)
        return round((x - left) / (right - left) * _WIDTH, 1), round((high - y) / (high - low) * _HEIGHT, 1)

    lines = []
    for hue, line in zip(_HUES, panel.lines, strict=False):
        path = " ".join(f"{x},{y}" for x, y in map(place, line.computed))
        lines.append(
            {"name": line.name, "hue": hue, "path": f"M{path}", "points": list(map(place, line.measured))}
        )
    return {
        "title": panel.title,
        "unit": panel.unit,
        "lines": lines,
        "columns": [(place((10**power, 10**low))[0], f"10^{power}") for power in range(left, right + 1)],
        "rows": [(place((10**left, 10**power))[1], f"10^{power}") for power in range(low, high + 1)],
    }
