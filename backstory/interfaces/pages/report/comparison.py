"""The page of an evaluation: the methods with their intervals, and the gain of the first over each other one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from backstory.interfaces.pages.report.page import render_page, write_page
from backstory.operations.evaluation import Comparison
from backstory.operations.scoring import METRICS

_MAIN = "ncov@5"

METRIC_WORDS = {
    "ncov@5": "topics covered by the first five documents, divided by min(5, topics)",
    "coverage@5": "share of all topics covered by the first five documents",
    "recall@10": "share of the relevant documents among the first ten",
    "ndcg@10": "order of the first ten, with the label as gain",
    "success@1": "share of the windows whose first document is relevant",
}


@dataclass(frozen=True)
class Interval:
    """A value and its interval, as positions in per cent of the axis and as text."""

    method: int
    name: str
    x: float
    left: float
    right: float
    text: str


@dataclass(frozen=True)
class GroupChart:
    """One group of windows: the scores of the methods, and the gains of the first over the others."""

    name: str
    windows: int
    scores: tuple[Interval, ...]
    gains: tuple[Interval, ...]


@dataclass(frozen=True)
class Axis:
    """A linear axis from ``low`` to ``high``, with its marks as (per cent, text)."""

    low: float
    high: float
    marks: tuple[tuple[float, str], ...]

    def place(self, value: float) -> float:
        """Return the position of a value on the axis, in per cent."""
        return 100 * (value - self.low) / (self.high - self.low)


@dataclass(frozen=True)
class MetricTable:
    """One metric: a row per group, a cell per method."""

    metric: str
    words: str
    rows: tuple[tuple[str, int, tuple[str, ...]], ...]


def write_comparison_page(path: Path, comparison: Comparison) -> Path:
    """Write the page of a comparison into a file, and give the file."""
    return write_page(path, render_comparison_page(comparison))


def render_comparison_page(comparison: Comparison) -> str:
    """Render a comparison of methods.

    Args:
        comparison: From :func:`backstory.operations.evaluation.evaluate_folder`.

    Returns:
        The HTML document: a chart of ``ncov@5`` with the paired gains, and a table of every metric.
    """
    rows = comparison.table.to_dicts()
    methods = list(dict.fromkeys(row["method"] for row in rows))
    main = [row for row in rows if row["metric"] == _MAIN]
    gained = [row for row in main if row["gain"] is not None]
    # A value is above 1 where one document is relevant to two topics. A gain is negative where the first method loses.
    score_axis = _make_axis(0.0, max([1.0, *(row["high"] for row in main)]), "{:.1f}")
    gain_axis = _make_axis(
        min([0.0, *(row["gain_low"] for row in gained)]),
        max([0.2, *(row["gain_high"] for row in gained)]),
        "{:+.1f}",
    )
    return render_page(
        "comparison.html",
        title=f"Comparison of methods on {comparison.name}",
        name=comparison.name,
        methods=methods,
        groups=_draw_groups(main, methods, score_axis, gain_axis),
        score_axis=score_axis,
        gain_axis=gain_axis,
        tables=tuple(_tabulate(metric, rows, methods) for metric in METRICS),
        figures=comparison.figures,
    )


def _draw_groups(
    main: Sequence[Mapping[str, Any]], methods: Sequence[str], score_axis: Axis, gain_axis: Axis
) -> tuple[GroupChart, ...]:
    charts = []
    for group in dict.fromkeys(row["group"] for row in main):
        mine = sorted(
            (row for row in main if row["group"] == group), key=lambda row: methods.index(row["method"])
        )
        charts.append(
            GroupChart(
                name=group,
                windows=mine[0]["windows"],
                scores=tuple(
                    _draw_interval(row, methods, score_axis, ("mean", "low", "high"), "{:.3f}")
                    for row in mine
                ),
                gains=tuple(
                    _draw_interval(row, methods, gain_axis, ("gain", "gain_low", "gain_high"), "{:+.3f}")
                    for row in mine
                    if row["gain"] is not None
                ),
            )
        )
    return tuple(charts)


def _draw_interval(
    row: Mapping[str, Any], methods: Sequence[str], axis: Axis, columns: Sequence[str], form: str
) -> Interval:
    value, low, high = (row[column] for column in columns)
    return Interval(
        method=methods.index(row["method"]),
        name=row["method"],
        x=axis.place(value),
        left=axis.place(low),
        right=axis.place(high),
        text=f"{form.format(value)} [{form.format(low)}, {form.format(high)}]",
    )


def _make_axis(low: float, high: float, form: str) -> Axis:
    step = 0.2
    first, last = int(low // step), -int(-high // step)
    values = [place * step for place in range(first, last + 1)]
    axis = Axis(values[0], values[-1], ())
    return Axis(axis.low, axis.high, tuple((axis.place(value), form.format(value)) for value in values))


def _tabulate(metric: str, rows: Sequence[Mapping[str, Any]], methods: Sequence[str]) -> MetricTable:
    mine = {(row["group"], row["method"]): row for row in rows if row["metric"] == metric}
    groups = dict.fromkeys(group for group, _ in mine)
    return MetricTable(
        metric,
        METRIC_WORDS[metric],
        tuple(
            (
                group,
                mine[group, methods[0]]["windows"],
                tuple(_cell(mine[group, method]) for method in methods),
            )
            for group in groups
        ),
    )


def _cell(row: Mapping[str, Any]) -> str:
    return f"{row['mean']:.3f} [{row['low']:.2f}, {row['high']:.2f}]"
