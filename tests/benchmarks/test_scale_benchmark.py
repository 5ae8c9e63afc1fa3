"""The simulation of sizes, and the page that shows it."""

from dataclasses import fields
from pathlib import Path

import pytest

from benchmarks.scale import (
    CHUNKS,
    EMBEDDED_BYTES,
    GROUPS,
    REMEDIES,
    Constants,
    Measured,
    measure_run,
    read_constants,
    read_measured,
    simulate_chunks,
    simulate_groups,
    tabulate,
    tabulate_measured,
)
from benchmarks.synthetic_workspace import Size

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "scale.md"
ONES = Constants(**{field.name: 1.0 for field in fields(Constants)})


def test_the_page_shows_what_the_constants_give() -> None:
    page, constants, measured = PAGE.read_text(encoding="utf-8"), read_constants(), read_measured()
    assert tabulate(constants) in page
    assert tabulate_measured(constants, measured) in page


def test_what_was_measured_stands_beside_what_is_computed() -> None:
    exact = Measured("10^4 chunks", 10**4, "build, CPU s", 10**4)
    assert tabulate_measured(ONES, [exact]).endswith("| 10,000 | 10,000 | 1.00 |")


def test_demands_are_sums_of_units() -> None:
    groups, chunks = simulate_groups(2, ONES), simulate_chunks(7_200, ONES)
    messages = 2 * 400 * 3_650
    assert groups.hours["tables"] == pytest.approx((messages + 1) / 3_600)
    assert groups.hours["embedding"] == pytest.approx((messages + 10_000) / 3_600)
    assert groups.hours["searching"] == pytest.approx((messages + 10_000) * 10_001 / 3_600)
    assert groups.gigabytes == pytest.approx((2 * messages + 10_000) / 1e9)
    assert chunks.hours == {"embedding": 2.0, "building": 2.0}
    assert (chunks.workers, chunks.query_seconds) == (1, 7_201)
    assert chunks.dollars_once == pytest.approx(0.16)
    assert chunks.memory_gb == pytest.approx((2 * 7_200 + 1) / 1e9)
    assert simulate_chunks(10**10, ONES).memory_gb == pytest.approx((1 + 10**10 + EMBEDDED_BYTES) / 1e9)


def test_each_size_names_what_binds_and_a_remedy() -> None:
    demands = [simulate_groups(groups, read_constants()) for groups in GROUPS]
    demands += [simulate_chunks(chunks, read_constants()) for chunks in CHUNKS]
    assert {demand.binding for demand in demands} <= set(REMEDIES)
    assert len({demand.binding for demand in demands}) > 1
    for first, second in ((0, 1), (1, 2), (3, 4), (4, 5)):
        assert sum(demands[first].hours.values()) < sum(demands[second].hours.values())


def test_each_conversation_of_a_size_is_read() -> None:
    found = measure_run(Size(windows=2, messages=5, documents=3, conversations=2))
    assert (found["messages"], found["texts"] >= 4) == (20, True)
    assert min(found.values()) > 0
