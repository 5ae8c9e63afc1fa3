"""The commands on a whole workspace: ``status``, ``doctor``, ``backup``, ``restore``, ``storage`` and ``forget``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from backstory.base.errors import InputError, SettingsError, WorkspaceError
from backstory.base.wording import count, write_cost, write_duration, write_size
from backstory.interfaces.cli.failure import BAD_USAGE, FAILED
from backstory.interfaces.cli.options import JsonOption, VerboseOption, WorkspaceOption, open_workspace
from backstory.interfaces.cli.terminal import plain, print_lines, print_record, print_result, print_table

if TYPE_CHECKING:
    from backstory.ingest.privacy.exclusions import Kind
    from backstory.operations.forgetting import Forgetting
    from backstory.operations.inspection.inventory import Status
    from backstory.operations.inspection.probes import Examination
    from backstory.pipeline.run.cache_use import CacheUse
    from backstory.pipeline.workspace import Workspace

_LATEST_RUNS = 10
_FIGURES = ("partitions", "time", "texts", "cached", "calls", "tokens", "cost")


def status(
    runs: Annotated[
        bool, typer.Option("--runs", help="Show the latest runs with their progress or result, and cost.")
    ] = False,
    limit: Annotated[
        int | None, typer.Option(min=1, help="Show this many of the latest runs. Default with --runs: 10.")
    ] = None,
    workspace: WorkspaceOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show the size of each table and the state of the search index and the caches; or the latest runs."""
    opened = open_workspace(workspace)
    if runs or limit is not None:
        _show_runs(opened, limit or _LATEST_RUNS, as_json=as_json)
    else:
        from backstory.operations.inspection.inventory import read_status

        print_result(read_status(opened), print_status, as_json=as_json)


def print_status(console: Console, status: Status) -> None:
    """Print the search index and the tables of a workspace."""
    index = status.index_error or "not built yet; `backstory run` builds it"
    if status.index_version is not None and status.index_error is None:
        index = f"version {status.index_version}, searched exactly"
        if status.index_recall is not None:
            found = f"{status.index_recall:.1%} of the best five that an exact search finds"
            index = f"version {status.index_version}, searched approximately: finds {found}"
    shared = [f"Shared {what}: {address}" for what, address in status.storage.items() if address is not None]
    head = [f"Workspace: {status.root}", *shared, f"Embedding: {status.embedder}", f"Search index: {index}"]
    print_lines(console, [*head, ""])
    rows = []
    for name, size in status.tables.items():
        days = (None if day == "all" else day for day in (size.first, size.last))
        rows.append((name, size.rows, size.partitions, *days))
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


def _show_runs(workspace: Workspace, limit: int, *, as_json: bool) -> None:
    """Print a table of the latest runs, and a sentence for each that is running or did not succeed."""
    from backstory.base.local_times import localize
    from backstory.pipeline.history.history import SUCCEEDED

    records = workspace.runs.read(limit)
    timezone = workspace.settings.conversations.timezone

    def show(console: Console, rows: Sequence[Mapping[str, Any]]) -> None:
        if not records:
            console.print("No run is recorded yet; `backstory run` or `backstory add` starts one.")
            return
        cells = [
            (
                record.run_id[:8],
                record.by,
                f"{localize(row['started_at'], timezone):%Y-%m-%d %H:%M:%S}",
                record.status,
                record.first_partition,
                record.last_partition,
                record.partitions,
                write_duration(record.seconds),
                row["embedding_texts"],
                row["embedding_cached"],
                record.calls,
                sum(used.tokens_in + used.tokens_out for used in record.usage.values()),
                "no price" if record.cost is None else write_cost(record.cost, record.currency),
            )
            for record, row in zip(records, rows, strict=True)
        ]
        columns = ("run", "by", f"started ({timezone})", "status", "first", "last", *_FIGURES)
        print_table(console, columns, cells, right=_FIGURES)
        print_lines(console, (record.describe() for record in records if record.status != SUCCEEDED))

    rows = [{**record.as_row(), "standing": record.describe()} for record in records]
    print_result(rows, show, as_json=as_json)


def doctor(
    files: Annotated[
        bool,
        typer.Option("--files", help="Compare every file with its checksum, and tables with each other."),
    ] = False,
    alerts: Annotated[
        bool, typer.Option("--alerts", help="Show the open problems that alerts have reported.")
    ] = False,
    test_alert: Annotated[
        bool, typer.Option("--test-alert", help="Send an alert to the command and webhook of the settings.")
    ] = False,
    prune_caches: Annotated[
        bool, typer.Option("--prune-caches", help="Delete what the caches hold and no table uses.")
    ] = False,
    verbose: VerboseOption = False,
    workspace: WorkspaceOption = None,
    as_json: JsonOption = False,
) -> None:
    """Check the installation, the permissions and the consistency of the tables.

    --files writes nothing and loads no model. --prune-caches waits for a run that is under way.

    Exit codes: 0 all is well; 1 a check failed, and its line says what to do; 2 bad settings, or no alert is set up.
    """
    modes = {"--files": files, "--alerts": alerts, "--test-alert": test_alert, "--prune-caches": prune_caches}
    given = [name for name, is_given in modes.items() if is_given]
    if len(given) > 1:
        raise typer.BadParameter("use only one of these options", param_hint=" and ".join(given))
    if alerts:
        _show_alerts(open_workspace(workspace), as_json=as_json)
    elif test_alert:
        from backstory.operations.alerts import send_test

        told = send_test(open_workspace(workspace))
        print_record(told, told, as_json=as_json)
    elif prune_caches:
        _prune_caches(open_workspace(workspace), as_json=as_json)
    else:
        from backstory.operations.inspection.doctor import examine

        found = examine(workspace, deep=files)
        print_result(found, partial(_print_examinations, verbose=verbose or files), as_json=as_json)
        failed = {one.name for one in found if not one.passed}
        if failed:
            raise typer.Exit(BAD_USAGE if "settings" in failed else FAILED)


def _show_alerts(workspace: Workspace, *, as_json: bool) -> None:
    """Print the open problems already sent to each hook of a workspace."""
    from backstory.operations.alerts import read_sent

    sent = {name: list(one.problems.values()) for name, one in read_sent(workspace).items()}
    lines = [] if sent else ["No alert is set up: neither alerts.command nor alerts.webhook is set."]
    for name, problems in sent.items():
        lines.append(f"{name}: {len(problems)} open" if problems else f"{name}: no open problem")
        lines += [f"  since {problem.since}: {problem.sentence}" for problem in problems]
    record = {name: [one.model_dump(exclude_defaults=True) for one in found] for name, found in sent.items()}
    print_record(record, lines, as_json=as_json)


def _prune_caches(workspace: Workspace, *, as_json: bool) -> None:
    """Delete what the caches hold in vain, and print what was deleted and what is left."""
    from backstory.pipeline.run.cache_use import measure_caches, prune_caches

    pruned, use = prune_caches(workspace), measure_caches(workspace)
    freed = (
        "Deleted {vectors:,} vectors, {drafts:,} drafts and {judgements:,} judgements".format_map(pruned)
        + f": {write_size(pruned['freed_bytes'])} freed"
    )
    lines = [freed, f"Left: {_describe_caches(use)}"]
    print_record(asdict(use) | {"pruned": pruned}, lines, as_json=as_json)


_TOLD = ("embedder", "search index", "languages", "real names", "runs", "files in", "documents")


def _print_examinations(console: Console, found: Sequence[Examination], *, verbose: bool) -> None:
    """Print a line for each examination; most that passed are only counted."""
    shown = [one for one in found if verbose or not one.passed or one.name.startswith(_TOLD)]
    for one in shown:
        mark = ("ok  ", "green") if one.passed else ("FAIL", "red")
        console.print(Text.assemble(mark, " ", plain(f"{one.name}: {one.detail}")), soft_wrap=True)
    if len(shown) < len(found):
        passed = count(len(found) - len(shown), "more check")
        console.print(f"{passed} passed; `backstory doctor -v` lists them")


def backup(
    destination: Annotated[
        str,
        typer.Argument(metavar="PLACE", help="A .tar.gz, a folder, s3://bucket/prefix or file:///folder."),
    ],
    without_inputs: Annotated[
        bool, typer.Option("--without-inputs", help="Leave out chats and posts; back them up elsewhere.")
    ] = False,
    keep: Annotated[
        int | None, typer.Option(min=1, help="In s3:// and file://, keep only so many backups of it.")
    ] = None,
    workspace: WorkspaceOption = None,
    as_json: JsonOption = False,
) -> None:
    """Back up the workspace. A run may be under way.

    A file contains the key of the pseudonyms and, unless left out, chats with real names. Only its owner can read it.
    In s3:// and file://, there are no keys. In a folder and in a store, the file is named for you.
    """
    from backstory.operations.backup import write_backup, write_to_store

    opened = open_workspace(workspace)
    if "://" in destination:
        done = write_to_store(opened, destination, inputs=not without_inputs, keep=keep)
    elif keep is not None:
        raise InputError("--keep is for s3:// and file://; delete files of backups yourself", code="no_store")
    else:
        done = write_backup(opened, Path(destination), inputs=not without_inputs)
    lines = [f"Wrote {done.place}: {done.files:,} files, {write_size(done.size)}"]
    if keep is not None:
        lines.append(f"Removed {count(done.removed, 'earlier backup')}")
    lines += [f"  left out: {reason}" for reason in done.left_out]
    if done.holds_secret:
        lines.append("It contains the key of the pseudonyms: keep it where only you can read it.")
    if done.holds_inputs:
        lines.append("It contains chats and posts as they are: keep it where only you can read it.")
    print_record(asdict(done), lines, as_json=as_json)


def restore(
    source: Annotated[
        str,
        typer.Argument(
            metavar="BACKUP", help="A file or address; of s3://bucket/prefix, the last one there."
        ),
    ],
    into: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Workspace to create. Default: its former name, here.")
    ] = None,
    replace: Annotated[
        bool, typer.Option("--replace", help="Move what the folder holds aside. Nothing is deleted.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Restore a workspace from a backup. Every file is verified first."""
    from backstory.base.environment import SETTINGS_FILE
    from backstory.operations.backup import restore_backup, restore_from_store
    from backstory.settings.yaml_file import read_settings

    if "://" in source:
        done = restore_from_store(source, into, replace=replace)
    else:
        done = restore_backup(Path(source), into, replace=replace)
    lines = [f"Restored {done.root}: {done.files:,} files, every checksum verified"]
    if done.aside is not None:
        lines.append(f"The former content is in {done.aside}; delete it when you do not need it.")
    lines += [f"  left out: {reason}" for reason in done.left_out]
    settings = done.root / SETTINGS_FILE
    with suppress(SettingsError, WorkspaceError):  # no run gets past those of another version
        storage = read_settings(settings).storage
        if storage.files or storage.database:
            lines.append(f"It was shared: remove storage from {settings}, or it works on what is shared now.")
    lines.append(f"Next: backstory run --workspace {done.root}")
    print_record(asdict(done), lines, as_json=as_json)


storage = typer.Typer(no_args_is_help=True, help="Move a workspace onto servers, or back.")


@storage.callback()
def _require_command() -> None:
    """Keep the name of the one command on the command line."""


@storage.command()
def copy(
    to: Annotated[
        str,
        typer.Option(help="s3://bucket/prefix or file:///folder; postgresql://user@host/name; or local."),
    ],
    workspace: WorkspaceOption = None,
    as_json: JsonOption = False,
) -> None:
    """Copy the files or the state of the workspace, and compare the copy. A copy that was stopped continues.

    Files go to a store, state to a database, and both come back to the folder of the workspace with `--to local`. The
    settings stay as they are; the last line says what to change in them.
    """
    from backstory.operations.moving import LOCAL, copy_workspace
    from backstory.settings.storage import DATABASE_SCHEMES

    opened = open_workspace(workspace)
    done = copy_workspace(opened, to)
    used, settings = opened.settings.storage, f"{opened.root}/backstory.yaml"
    is_database = to.partition(":")[0] in DATABASE_SCHEMES
    lines = [
        f"Files: {done.files:,} ({write_size(done.size)}), every one has its hash; {done.copied:,} copied",
        f"Rows of state: {done.rows:,}; {done.copied_rows:,} copied, and what was there before stays",
    ]
    if to == LOCAL:
        lines.append(f"To use the folder alone, remove storage from {settings}")
    elif to.rstrip("/") != (used.database if is_database else used.files):
        name = "database" if is_database else "files"
        lines.append(
            f"To use it, set storage.{name} to {to} in {settings}; other workers need the same file, and for runs "
            f"{opened.root / '.backstory'}/*.key"
        )
    print_record(asdict(done), lines, as_json=as_json)


def forget(
    conversation: Annotated[
        str | None, typer.Option(metavar="NAME", help="A conversation, by its id or the path of an export.")
    ] = None,
    member: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="A person, by the name in the exports or the pseudonym."),
    ] = None,
    document: Annotated[
        str | None, typer.Option(metavar="NAME", help="A document, by its path, slug or id.")
    ] = None,
    workspace: WorkspaceOption = None,
    as_json: JsonOption = False,
) -> None:
    """Remove a conversation, a member or a document from all data, and exclude it from later runs.

    The command then queries all tables and the state for its texts and ids. It does not change chat exports and
    documents; it names those that still contain it.

    Exit codes: 0 nothing is left; 1 a table still contains some; 2 bad usage or settings.
    """
    named: dict[Kind, str | None] = {"conversation": conversation, "member": member, "document": document}
    given = [(kind, name) for kind, name in named.items() if name]
    if len(given) != 1:
        raise InputError("give one of --conversation, --member and --document")
    from backstory.operations.forgetting import forget as forget_everywhere

    [(kind, name)] = given
    done = forget_everywhere(open_workspace(workspace), kind, name)
    print_record(done.model_dump(), _describe_forgetting(done), as_json=as_json)
    raise typer.Exit(FAILED if done.left else 0)


def _describe_forgetting(done: Forgetting) -> list[str]:
    """Describe the removal and the search, and name the files that the user must delete."""
    removed = (
        f"{count(done.rows, 'row')} and everything derived from them, and {count(done.vectors, 'vector')}"
    )
    searched = f"Queried all tables and the state for {done.wanted:,} texts and ids"
    dagster = (
        "Dagster's history may show rows of tables; delete the folder .dagster to lose all of the history."
    )
    return [
        f"Removed {removed}. The index was rebuilt, and its earlier snapshots were deleted.",
        *(f"Deleted {report}, since reports show messages." for report in done.reports),
        *(
            f"A process has the earlier snapshot {name} open; rerun this command when that process has ended."
            for name in done.open_snapshots
        ),
        f"{searched}: {'some are left:' if done.left else 'none is left.'}",
        *(f"  {table}: {hits:,} of them" for table, hits in done.left.items()),
        *([dagster] if done.has_history else []),
        *(
            f"Edit or delete {file} yourself: it still contains it, but runs no longer read it."
            for file in done.inputs
        ),
        *(f"{copy}." for copy in done.copies),
        "Not searched: backups, and copies of the workspace or of its pages.",
    ]
