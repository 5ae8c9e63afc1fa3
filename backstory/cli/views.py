"""How the command line shows what the library returns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from backstory.evaluation import METRICS, Comparison
from backstory.prompt_text import cut_snippet

_ASKED_CHARACTERS = 100
_SHORT_ID = 12


def print_status(console: Console, status: Mapping[str, Any]) -> None:
    """Show the tables of a workspace."""
    if status["index_error"]:
        console.print(Text(f"index: {status['index_error']}", style="red"))
    table = Table("table", "rows", "partitions", "first", "last")
    for name, facts in status["tables"].items():
        table.add_row(
            name, f"{facts['rows']:,}", str(facts["partitions"]), facts["first"] or "", facts["last"] or ""
        )
    recall = status["index_recall"]
    found = f", recall@5 {recall['recall_at_5']:.1%}" if recall else ""
    version = f"{status['index_version'] or 'none'}{found}"
    console.print(Text(f"{status['root']}: embedder {status['embedder']}, index {version}"))
    console.print(table)


def print_windows(console: Console, windows: Sequence[Mapping[str, Any]]) -> None:
    """Show one line per window."""
    if not windows:
        console.print("No windows yet; run `backstory run`.")
        return
    table = Table("window", "conversation", "from", "to", "messages", "context", "documents", "coverage")
    for row in windows:
        table.add_row(
            row["window_id"][:_SHORT_ID],
            Text(row["conversation_id"]),
            f"{row['started_at']:%Y-%m-%d %H:%M}",
            f"{row['ended_at']:%Y-%m-%d %H:%M}",
            str(row["message_count"]),
            row["status"],
            "" if row["kept_count"] is None else str(row["kept_count"]),
            "" if row["coverage"] is None else f"{row['coverage']:.0%}",
        )
    console.print(table)


def print_context(console: Console, context: Mapping[str, Any]) -> None:
    """Show a context's text, then why each document was chosen and what was dropped."""
    if not context["text"]:
        reason = f": {context['error']}" if context["error"] else ""
        console.print(Text(f"No context: {context['status']}{reason}."))
        _print_verdict(console, context)
        return
    if context["error"]:
        console.print(Text(f"{context['status']}: {context['error']}", style="yellow"))
    console.print(Text(context["text"].strip()))
    console.rule("why")
    for row in context["documents"]:
        console.print(Text(f"{row['rank']}. {row['slug']}: asked for by {len(row['asked_by'])} query chunks"))
        for text in row["asked_by"][:2]:
            console.print(Text(f"     {cut_snippet(' '.join(text.split()), _ASKED_CHARACTERS)}", style="dim"))
    dropped = ", ".join(f"{count} {cause.replace('_', ' ')}" for cause, count in context["dropped"].items())
    console.print(
        f"Dropped hits: {dropped or 'none'}. Coverage: {context['coverage']:.0%} of the query chunks.",
        highlight=False,
    )
    _print_verdict(console, context)


def _print_verdict(console: Console, context: Mapping[str, Any]) -> None:
    console.print(
        f"Verdict: {context['verdict']} ({context['confidence']:.0%} likely to cover half of the topics or more). "
        f"Recommendation: {context['recommendation']}.",
        highlight=False,
    )


def print_query(console: Console, answer: Mapping[str, Any]) -> None:
    """Show the documents that a query found."""
    table = Table("#", "similarity", "document", "date", "found")
    for place, row in enumerate(answer["documents"], start=1):
        published = row["published_at"]
        table.add_row(
            str(place),
            f"{row['similarity']:.3f}" + ("" if row["above_threshold"] else " (below threshold)"),
            Text(row["slug"]),
            f"{published:%Y-%m-%d}" if published else "",
            Text(cut_snippet(" ".join(row["content"].split()), _ASKED_CHARACTERS)),
        )
    console.print(table)
    console.print(
        f"Searched by {answer['engine']} ({answer['reason']}), snapshot {answer['index_version']}.",
        highlight=False,
    )


def print_examinations(console: Console, examinations: Sequence[Mapping[str, Any]]) -> None:
    """Show what was examined."""
    for row in examinations:
        mark = "[green]ok  [/green]" if row["passed"] else "[red]FAIL[/red]"
        console.print(f"{mark} {row['name']}: ", end="")
        console.print(Text(row["detail"]), soft_wrap=True)


def print_comparison(console: Console, comparison: Comparison) -> None:
    """Show the scores per group with their intervals, and the advantage over each baseline."""
    table = Table("group", "windows", "method", *METRICS, "gain in ncov@5", title=Text(comparison.name))
    keys = ["group", "method"]
    for (group, method), rows in comparison.table.group_by(keys, maintain_order=True):
        by_metric = {row["metric"]: row for row in rows.to_dicts()}
        gain = by_metric["ncov@5"]
        table.add_row(
            Text(str(group)),
            str(gain["windows"]),
            str(method),
            *(
                f"{row['mean']:.3f} [{row['low']:.2f}, {row['high']:.2f}]"
                for row in (by_metric[m] for m in METRICS)
            ),
            ""
            if gain["gain"] is None
            else f"{gain['gain']:+.3f} [{gain['gain_low']:+.2f}, {gain['gain_high']:+.2f}]",
        )
    console.print(table)
    figures = ", ".join(f"{name} {value}" for name, value in comparison.figures.items())
    console.print(Text(figures), soft_wrap=True)
    for row in comparison.prediction.to_dicts():
        console.print(
            f"The assessment predicts {row['metric']}: Spearman {_figure(row['spearman'])}, "
            f"Pearson {_figure(row['pearson'])} ({row['windows']} windows)",
            highlight=False,
            soft_wrap=True,
        )
    console.print(
        "Brackets: 95 % bootstrap intervals over windows; gains are paired.", style="dim", highlight=False
    )


def _figure(value: float | None) -> str:
    return "undefined" if value is None else f"{value:.2f}"
