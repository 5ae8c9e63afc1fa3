"""The page of an evaluation: its dots stand where the numbers say."""

import re

import polars as pl
import pytest

from backstory.interfaces.pages.report.comparison import render_comparison_page
from backstory.operations.evaluation import Comparison
from backstory.operations.scoring import compare_methods


def compare(values: dict[str, list[float]], name: str = "set") -> Comparison:
    rows = [
        (method, name, f"w{place}", value, value, value, value, value)
        for method, column in values.items()
        for place, value in enumerate(column)
    ]
    schema = ["method", "group", "window_id", "ncov@5", "coverage@5", "recall@10", "ndcg@10", "success@1"]
    scores = pl.DataFrame(rows, schema=schema, orient="row")
    return Comparison(name, scores, compare_methods(scores, of="own"), {"documents": 3})


def dots(page: str) -> list[float]:
    return [float(x) for x in re.findall(r'class="dot-frame" x="(-?[\d.]+)%"', page)]


def test_dots_stand_at_the_means_and_gains() -> None:
    page = render_comparison_page(compare({"own": [0.9] * 4, "other": [0.5] * 4}))
    assert dots(page) == pytest.approx([90, 50, 100])  # a gain of .4 on an axis from 0 to .4
    assert "+0.400 [+0.400, +0.400]" in page


def test_a_loss_and_a_value_above_one_stay_on_the_axes() -> None:
    page = render_comparison_page(compare({"own": [0.5, 0.5], "other": [1.1, 1.1]}))
    assert all(0 <= x <= 100 for x in dots(page))
    assert "-0.600 [-0.600, -0.600]" in page
    assert ">-0.6<" in page


def test_names_are_escaped() -> None:
    page = render_comparison_page(compare({"own": [0.5]}, name="<script>alert(1)</script>"))
    assert "<script" not in page
    assert "&lt;script&gt;" in page
