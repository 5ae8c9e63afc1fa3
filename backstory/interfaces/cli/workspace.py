"""The commands on a whole workspace: ``status`` with the latest runs, and ``doctor``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Final

import typer
from rich.console import Console
from rich.text import Text

from backstory.base.local_times import localize
from backstory.base.wording import count, write_cost, write_duration, write_size
from backstory.interfaces.cli.failure import BAD_USAGE, FAILED
from backstory.interfaces.cli.options import JsonOption, WorkspaceOption, open_workspace
from backstory.interfaces.cli.terminal import plain, print_lines, print_record, print_result, print_table

if TYPE_CHECKING:
    from backstory.operations.inspection.inventory import Status
    from backstory.operations.inspection.probes import Examination
    from backstory.pipeline.history.record import RunRecord
    from backstory.pipeline.run.cache_use import CacheUse
    from backstory.pipeline.workspace import Workspace


_LATEST_RUNS = 10

_PARTS: Final = frozenset(
    {
        "installation", "model cache", "settings", "catalog", "cache", "views", "copies", "history of runs",
        "workspace writable", "workspace closed to others", "snapshot of contexts",
    }
)  # fmt: skip
"""Examinations of which a person needs to know no more than that they passed."""

_OPTIONAL_PARTS: Final = frozenset({"store of files", "reranker", "learned"})
"""Examinations that a person needs to see if there is such a thing."""


def status(
    runs: Annotated[
        bool,
        typer.Option(
            "--runs", help="Show the latest runs with the progress or result of each, and its cost."
        ),
    ] = False,
    limit: Annotated[
        int | None, typer.Option(min=1, help="With --runs: number of runs to show. Default: 10.")
    ] = None,
    workspace: WorkspaceOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show the size of each table and the state of the search index and the caches; or the latest runs."""
    if limit is not None and not runs:
        raise typer.BadParameter("needs --runs; add --runs, or leave it out", param_hint="--limit")
    opened = open_workspace(workspace)
    if runs:
        show_runs(opened, limit or _LATEST_RUNS, as_json=as_json)
    else:
        from backstory.operations.inspection.inventory import read_status

        print_result(read_status(opened), print_status, as_json=as_json)


def doctor(
    files: Annotated[
        bool,
        typer.Option(
            "--files",
            help="Compare every file that runs have written with its recorded checksum, and the references between "
            "tables. Nothing is written, and no model is loaded.",
        ),
    ] = False,
    alerts: Annotated[
        bool, typer.Option("--alerts", help="Show the open problems that alerts have reported.")
    ] = False,
    test_alert: Annotated[
        bool,
        typer.Option(
            "--test-alert", help="Send a test alert to the command and the webhook of the settings."
        ),
    ] = False,
    prune_caches: Annotated[
        bool,
        typer.Option(
            "--prune-caches",
            help="Delete the cached vectors, drafts and judgements that the present tables and embedding model do not "
            "use. Waits for a run that is under way.",
        ),
    ] = False,
    verbose: Annotated[
        bool,
        typer.Option("--verbose", "-v", help="Also print the checks of single tables and files that passed."),
    ] = False,
    workspace: WorkspaceOption = None,
    as_json: JsonOption = False,
) -> None:
    """Check the installation, the permissions and the consistency of the tables.

    Exit codes: 0 all is well; 1 a check failed, and its line says what to do; 2 bad settings, or no alert is set up.
    """
    _require_one(files=files, alerts=alerts, test_alert=test_alert, prune_caches=prune_caches)
    if alerts:
        _show_alerts(open_workspace(workspace), as_json=as_json)
    elif test_alert:
        from backstory.operations.alerts.sending import send_test

        told = send_test(open_workspace(workspace))
        print_record(told, told, as_json=as_json)
    elif prune_caches:
        from backstory.pipeline.run.cache_use import measure_caches
        from backstory.pipeline.run.cache_use import prune_caches as prune

        opened = open_workspace(workspace)
        pruned, use = prune(opened), measure_caches(opened)
        deleted = f"{pruned.vectors:,} vectors, {pruned.drafts:,} drafts and {pruned.judgements:,} judgements"
        lines = [
            f"Deleted {deleted}: {write_size(pruned.freed_bytes)} freed",
            f"Left: {_describe_caches(use)}",
        ]
        print_record(asdict(use) | {"pruned": asdict(pruned)}, lines, as_json=as_json)
    else:
        from backstory.operations.inspection.doctor import examine

        _print_outcome(examine(workspace, deep=files), as_json=as_json, verbose=verbose or files)


def _show_alerts(workspace: Workspace, *, as_json: bool) -> None:
    """Print the open problems already sent to each hook of a workspace."""
    from backstory.operations.alerts.sending import read_open

    sent = read_open(workspace)
    lines = [] if sent else ["No alert is set up: neither alerts.command nor alerts.webhook is set."]
    for name, problems in sent.items():
        lines.append(f"{name}: {len(problems)} open" if problems else f"{name}: no open problem")
        lines += [f"  since {problem.since}: {problem.sentence}" for problem in problems]
    record = {name: [one.model_dump(exclude_defaults=True) for one in found] for name, found in sent.items()}
    print_record(record, lines, as_json=as_json)


def _require_one(**options: bool) -> None:
    given = [f"--{name.replace('_', '-')}" for name, is_given in options.items() if is_given]
    if len(given) > 1:
        raise typer.BadParameter("use only one of these options", param_hint=" and ".join(given))


def _print_outcome(found: Sequence[Examination], *, as_json: bool, verbose: bool) -> None:
    """Print the examinations, and exit with what failed."""
    print_result(
        found, lambda console, found: _print_examinations(console, found, verbose=verbose), as_json=as_json
    )
    failed = {one.name for one in found if not one.passed}
    if failed:
        raise typer.Exit(BAD_USAGE if "settings" in failed else FAILED)


def print_status(console: Console, status: Status) -> None:
    """Print the search index and the tables of a workspace."""
    shared = [f"Shared {what}: {address}" for what, address in status.storage.items() if address is not None]
    print_lines(
        console,
        [
            f"Workspace: {status.root}",
            *shared,
            f"Embedding: {status.embedder}",
            f"Search index: {status.index_error or _describe_index(status)}",
            "",
        ],
    )
    rows = []
    for name, size in status.tables.items():
        dated = size.first != size.last or size.first not in (None, "all")
        first, last = (size.first or "", size.last or "") if dated else ("", "")
        rows.append((name, f"{size.rows:,}", f"{size.partitions:,}", first, last))
    columns = ("table", "rows", "partitions", "first", "last")
    print_table(console, columns, rows, right=("rows", "partitions"))
    lines = [f"Caches: {_describe_caches(status.caches) if status.caches else status.cache_error}"]
    lines += [f"Runs: {sentence}" for sentence in status.runs]
    print_lines(console, [*lines, *(f"Stale: {sentence}" for sentence in status.stale_copies)])


def _describe_caches(use: CacheUse) -> str:
    models = f" of {len(use.vectors)} models" if len(use.vectors) > 1 else ""
    return (
        f"{sum(use.vectors.values()):,} vectors{models} ({write_size(use.vector_bytes)}), "
        f"{use.drafts:,} drafts ({write_size(use.draft_bytes)}), "
        f"{use.judgements:,} judgements ({write_size(use.judgement_bytes)})"
    )


def _describe_index(status: Status) -> str:
    if status.index_version is None:
        return "not built yet; `backstory run` builds it"
    if status.index_recall is None:
        return f"version {status.index_version}, searched exactly"
    return (
        f"version {status.index_version}, searched approximately: finds {status.index_recall:.1%} of the "
        "best five that an exact search finds"
    )


def _print_examinations(console: Console, found: Sequence[Examination], *, verbose: bool) -> None:
    """Print a line for each examination; those that tell nothing but that a part is in order are only counted."""
    shown = [one for one in found if verbose or not _is_routine(one)]
    for one in shown:
        mark = ("ok  ", "green") if one.passed else ("FAIL", "red")
        console.print(Text.assemble(mark, " ", plain(f"{one.name}: {one.detail}")), soft_wrap=True)
    if len(shown) < len(found):
        passed = count(len(found) - len(shown), "more check")
        console.print(plain(f"{passed} passed; `backstory doctor -v` lists them"))


def _is_routine(one: Examination) -> bool:
    """Return whether an examination tells nothing but that a part of the machinery is in order."""
    is_unused = one.name in _OPTIONAL_PARTS and one.detail.startswith(("none ", "nothing"))
    return one.passed and (is_unused or one.name in _PARTS or one.name.startswith("table "))


_FIGURES = ("partitions", "time", "texts", "cached", "calls", "tokens", "cost")


def show_runs(workspace: Workspace, limit: int, *, as_json: bool) -> None:
    """Print the latest runs with the progress or result of each, and its cost."""
    from backstory.pipeline.history.record import describe_status

    records = workspace.runs.read(limit)
    shown = [{**record.as_row(), "standing": describe_status(record)} for record in records]
    timezone = workspace.settings.conversations.timezone
    print_result(shown, lambda console, _: print_runs(console, records, timezone), as_json=as_json)


def print_runs(console: Console, records: list[RunRecord], timezone: str) -> None:
    """Print a table of runs by the clock of a time zone, and a sentence for each that is running or did not succeed."""
    from backstory.pipeline.history.record import SUCCEEDED, describe_status

    if not records:
        console.print("No run is recorded yet; `backstory run` or `backstory add` starts one.")
        return
    columns = ("run", "by", f"started ({timezone})", "status", "first", "last", *_FIGURES)
    print_table(console, columns, (_describe_row(record, timezone) for record in records), right=_FIGURES)
    print_lines(console, (describe_status(record) for record in records if record.status != SUCCEEDED))


def _describe_row(record: RunRecord, timezone: str) -> list[str]:
    row = record.as_row()
    tokens = sum(used.tokens_in + used.tokens_out for used in record.usage.values())
    cost = "no price" if record.cost is None else write_cost(record.cost, record.currency)
    return [
        record.run_id[:8],
        record.by,
        f"{localize(row['started_at'], timezone):%Y-%m-%d %H:%M:%S}",
        record.status,
        record.first_partition or "",
        record.last_partition or "",
        f"{record.partitions:,}",
        write_duration(record.seconds),
        f"{row['embedding_texts']:,}",
        f"{row['embedding_cached']:,}",
        f"{record.calls:,}",
        f"{tokens:,}",
        cost if record.calls else "0",
    ]
