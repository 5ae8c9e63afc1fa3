"""The commands on a whole workspace: ``init``, ``status``, ``doctor`` and ``audit``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from backstory.cli.cache import describe_bytes
from backstory.cli.failure import BAD_USAGE, FAILED
from backstory.cli.options import JsonOption, WorkspaceOption
from backstory.cli.terminal import make_table, open_console, plain, print_json

if TYPE_CHECKING:
    from backstory.inspection.examination import Examination


def init(
    folder: Annotated[
        Path | None,
        typer.Argument(metavar="DIR", help="Folder to create. Default with --documents: the current one."),
    ] = None,
    documents: Annotated[
        Path | None,
        typer.Option(
            "--documents",
            metavar="FOLDER",
            help="Make a workspace without chats, which reads the documents of this folder where they lie.",
        ),
    ] = None,
) -> None:
    """Create a workspace: folders for chats and posts, and a commented backstory.yaml."""
    from backstory.settings.template import create_workspace

    if folder is None and documents is None:
        raise typer.BadParameter("name the folder to create", param_hint="DIR")
    created = create_workspace(folder or Path.cwd(), documents)
    steps = (
        (
            f"1. Put chat exports into {created / 'chats'} and posts into {created / 'posts'}.",
            f"2. backstory run --workspace {created}",
        )
        if documents is None
        else (
            f"1. backstory add --workspace {created}",
            f'2. backstory search "what to look for" --workspace {created}',
        )
    )
    console = open_console()
    for line in (f"Made {created}", *steps):
        console.print(plain(line), soft_wrap=True)


def status(workspace: WorkspaceOption = None, as_json: JsonOption = False) -> None:
    """Show the number of rows of each table, and the search index in use."""
    from backstory.inspection.status import read_status
    from backstory.workspace import open_workspace

    report = read_status(open_workspace(workspace))
    if as_json:
        print_json(report)
    else:
        print_status(open_console(), report)


def doctor(workspace: WorkspaceOption = None, as_json: JsonOption = False) -> None:
    """Check the installation, the files and permissions, and the consistency of the tables."""
    from backstory.inspection.doctor import examine

    _tell_examinations(examine(workspace), as_json=as_json)


def audit(workspace: WorkspaceOption = None, as_json: JsonOption = False) -> None:
    """Compare every file that runs have written with its recorded checksum; write nothing and load no model.

    Exit codes: 0 every file is as it was written; 1 one is not, and the line says which and what to do; 2 the settings
    cannot be read.
    """
    from backstory.inspection.audit import audit as audit_workspace

    _tell_examinations(audit_workspace(workspace), as_json=as_json)


def _tell_examinations(examinations: Sequence[Examination], *, as_json: bool) -> None:
    records = [examination.as_record() for examination in examinations]
    if as_json:
        print_json(records)
    else:
        print_examinations(open_console(), records)
    failed = {examination.name for examination in examinations if not examination.passed}
    if failed:
        raise typer.Exit(BAD_USAGE if "settings" in failed else FAILED)


def print_status(console: Console, status: Mapping[str, Any]) -> None:
    """Print the search index and the tables of a workspace."""
    console.print(plain(f"Workspace: {status['root']}"), soft_wrap=True)
    console.print(plain(f"Embedding: {status['embedder']}"))
    for job in status["embedding_jobs"]:
        console.print(
            plain(
                f"Batch job: {job['name'] or 'not confirmed yet'}, {job['texts']:,} texts ({job['task']}), "
                f"submitted {job['submitted']}"
            )
        )
    if status["index_error"]:
        console.print(plain(f"Search index: {status['index_error']}", "red"), soft_wrap=True)
    else:
        console.print(plain(f"Search index: {_describe_index(status)}"), soft_wrap=True)
    table = make_table("table", "rows", "partitions", "first", "last", right=("rows", "partitions"))
    for name, facts in status["tables"].items():
        dated = facts["first"] != facts["last"] or facts["first"] not in (None, "all")
        first, last = (facts["first"], facts["last"]) if dated else ("", "")
        table.add_row(name, f"{facts['rows']:,}", f"{facts['partitions']:,}", first, last)
    console.print()
    console.print(table)
    console.print(plain(f"Caches: {_describe_caches(status['caches'])}"), soft_wrap=True)
    for sentence in status["runs"]:
        console.print(plain(f"Runs: {sentence}"), soft_wrap=True)
    for sentence in status["stale_copies"]:
        console.print(plain(f"Stale: {sentence}"), soft_wrap=True)


def _describe_caches(caches: Mapping[str, Any]) -> str:
    if "error" in caches:
        return str(caches["error"])
    spaces = len(caches["vectors"])
    models = f" of {spaces} models" if spaces > 1 else ""
    return (
        f"{sum(caches['vectors'].values()):,} vectors{models} ({describe_bytes(caches['vector_bytes'])}), "
        f"{caches['drafts']:,} drafts ({describe_bytes(caches['draft_bytes'])}), "
        f"{caches['judgements']:,} judgements ({describe_bytes(caches['judgement_bytes'])})"
    )


def _describe_index(status: Mapping[str, Any]) -> str:
    if status["index_version"] is None:
        return "not built yet; `backstory run` builds it"
    recall = status["index_recall"]
    if recall is None:
        return f"version {status['index_version']}, searched exactly"
    return (
        f"version {status['index_version']}, searched approximately: finds {recall['recall_at_5']:.1%} of the best "
        "five that an exact search finds"
    )


def print_examinations(console: Console, examinations: Sequence[Mapping[str, Any]]) -> None:
    """Print the examinations, one line each."""
    for row in examinations:
        mark = ("ok  ", "green") if row["passed"] else ("FAIL", "red")
        console.print(Text.assemble(mark, " ", plain(f"{row['name']}: {row['detail']}")), soft_wrap=True)
