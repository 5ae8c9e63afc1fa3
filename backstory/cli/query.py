"""The command ``query``: one search in the index."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from datetime import UTC, date, datetime, time
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from backstory.cli.options import JsonOption, WorkspaceOption, read_day
from backstory.cli.terminal import open_console, plain, plain_line, print_json
from backstory.errors import StaleIndexWarning

_SNIPPET_CHARACTERS = 200
_INDENT = (0, 0, 0, 3)


def query(
    text: Annotated[str, typer.Argument(metavar="TEXT", help="Text to search for.")],
    top_k: Annotated[
        int | None,
        typer.Option(
            "-k", "--top-k", min=1, metavar="N", help="Maximum number of documents. Default: rag.top_k."
        ),
    ] = None,
    as_of: Annotated[
        date | None,
        typer.Option(
            "--as-of",
            parser=read_day,
            metavar="DATE",
            help="Only documents published on or before this day, and those without a date.",
        ),
    ] = None,
    tag: Annotated[
        list[str] | None,
        typer.Option(
            "--tag", metavar="TAG", help="Only documents with this tag; repeat it to allow several."
        ),
    ] = None,
    workspace: WorkspaceOption = None,
    as_json: JsonOption = False,
) -> None:
    """Search the documents for a text."""
    from backstory.inspection.query import query_text
    from backstory.workspace import open_workspace

    moment = None if as_of is None else datetime.combine(as_of, time.max, UTC)
    with warnings.catch_warnings(action="ignore", category=StaleIndexWarning):
        answer = query_text(open_workspace(workspace), text, top_k=top_k, as_of=moment, tags=tag or ())
    if answer["degraded"] is not None:
        told = Text.assemble(("warning: ", "yellow"), plain(answer["degraded"]))
        open_console(stderr=True).print(told, soft_wrap=True)
    if as_json:
        print_json(answer)
    else:
        print_answer(open_console(), answer)


def print_answer(console: Console, answer: Mapping[str, Any]) -> None:
    """Print the documents that a query found."""
    from backstory.prompt_text import cut_snippet

    if not answer["documents"]:
        conditions = [f"has the tag {' or '.join(map(repr, answer['tags']))}"] if answer["tags"] else []
        if answer["as_of"] is not None:
            conditions.append(f"is dated {answer['as_of']:%Y-%m-%d} or before")
        console.print(plain(f"Nothing found: no document {' and '.join(conditions) or 'is indexed'}."))
        return
    for place, row in enumerate(answer["documents"], start=1):
        published = row["published_at"]
        dated = f"{published:%Y-%m-%d}" if published else "undated"
        console.print(plain_line(f"{place}. {row['title']}", "bold"))
        snippet = cut_snippet(" ".join(row["content"].split()), _SNIPPET_CHARACTERS)
        for line in (
            plain_line(f"{row['slug']}, {dated}, similarity {_similarity(row)}"),
            plain(snippet, "dim"),
        ):
            console.print(Padding(line, _INDENT, expand=False))
    if not all(row["above_threshold"] for row in answer["documents"]):
        console.print(
            f"* below the threshold {answer['min_similarity']:.2f}: not similar enough for a context"
        )
    console.print(f"Searched by {answer['engine']} ({answer['reason']}), index {answer['index_version']}.")


def _similarity(row: Mapping[str, Any]) -> str:
    return f"{row['similarity']:.2f}{'' if row['above_threshold'] else '*'}"
