"""The scores and costs of all peers as one table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from backstory.operations.scoring import compare_methods, score_runs

ALL = "all"
OWN = "backstory"

_COLUMNS = (
    "set",
    "group",
    "windows",
    "method",
    "ncov@5",
    "recall@10",
    "nDCG@10",
    "index CPU s (wall)",
    "query CPU s (wall)",
    "peak MB",
)


def score_outcomes(
    outcomes: Mapping[str, Mapping[str, Any]], qrels: pl.DataFrame, name: str
) -> list[dict[str, Any]]:
    """Score the outcomes of the peers on one set.

    Args:
        outcomes: Outcomes of :func:`benchmarks.peers.driver.write_outcome` by peer.
        qrels: The labels of the windows.
        name: Name of the set.

    Returns:
        A record for every group and method, and one for all windows if there are several groups. A record holds
        the means of the metrics; the 95 % bootstrap interval ``low`` to ``high`` of ``ncov@5``; Backstory's gain in
        ``ncov@5`` with its paired interval; and seconds, memory and versions.
    """
    runs, figures = _tabulate(outcomes)
    scores = score_runs(runs, qrels, name=name, methods=list(figures))
    table = compare_methods(scores, of=next(method for method in figures if method.startswith(OWN)))
    if scores["group"].n_unique() > 1:
        pooled = scores.with_columns(group=pl.lit(ALL))
        overall = compare_methods(pooled, of=next(m for m in figures if m.startswith(OWN)))
        table = pl.concat([overall, table])
    records: dict[tuple[str, str], dict[str, Any]] = {}
    for row in table.iter_rows(named=True):
        key = row["group"], row["method"]
        record = records.setdefault(
            key,
            {
                "set": name,
                "group": row["group"],
                "windows": row["windows"],
                "method": row["method"],
                **figures[row["method"]],
            },
        )
        record[row["metric"]] = row["mean"]
        if row["metric"] == "ncov@5":
            record |= {name: row[name] for name in ("low", "high", "gain", "gain_low", "gain_high")}
    return list(records.values())


def write_table(records: Sequence[Mapping[str, Any]]) -> str:
    """Write records as a Markdown table; only the first row of a method and set has seconds and memory."""
    lines = ["| " + " | ".join(_COLUMNS) + " |", "|" + "---|" * len(_COLUMNS)]
    shown: set[tuple[str, str]] = set()
    for record in records:
        key = record["set"], record["method"]
        cells = [
            record["set"],
            record["group"],
            str(record["windows"]),
            record["method"],
            f"{record['ncov@5']:.3f} [{record['low']:.3f}, {record['high']:.3f}]",
            f"{record['recall@10']:.3f}",
            f"{record['ndcg@10']:.3f}",
            *(["", "", ""] if key in shown else _write_figures(record)),
        ]
        shown.add(key)
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _write_figures(record: Mapping[str, Any]) -> list[str]:
    seconds = [
        f"{record[step]['cpu']:.2f} ({record[step]['wall']:.2f})"
        for step in ("index_seconds", "query_seconds")
    ]
    return [*seconds, f"{record['peak_memory'] / 1e6:.0f}"]


def _tabulate(outcomes: Mapping[str, Mapping[str, Any]]) -> tuple[pl.DataFrame, dict[str, dict[str, Any]]]:
    rows: list[tuple[str, str, int, str]] = []
    figures: dict[str, dict[str, Any]] = {}
    for peer, outcome in outcomes.items():
        for way, ranked in outcome["runs"].items():
            method = f"{peer}, {way}"
            figures[method] = {
                "index_seconds": outcome["seconds"]["index"],
                "query_seconds": outcome["seconds"][way],
                "peak_memory": outcome["peak_memory"],
                "versions": outcome["versions"],
            }
            rows += [
                (method, window_id, rank, doc_id)
                for window_id, found in ranked.items()
                for rank, (doc_id, _) in enumerate(found, start=1)
            ]
    schema = {"method": pl.String, "window_id": pl.String, "rank": pl.Int64, "doc_id": pl.String}
    return pl.DataFrame(rows, schema=schema, orient="row"), figures
