"""The command ``backstory forget``: remove one thing from all data, and verify that it is gone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from backstory.base.errors import InputError
from backstory.base.wording import count
from backstory.interfaces.cli.failure import FAILED
from backstory.interfaces.cli.options import JsonOption, WorkspaceOption
from backstory.interfaces.cli.terminal import print_record

if TYPE_CHECKING:
    from backstory.ingest.privacy.erasure_list import Kind
    from backstory.operations.forgetting.forget import Forgetting


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
    from backstory.operations.forgetting.forget import forget as forget_everywhere
    from backstory.pipeline.workspace import open_workspace

    [(kind, name)] = given
    done = forget_everywhere(open_workspace(workspace), kind, name)
    print_record(done.model_dump(), _describe(done), as_json=as_json)
    raise typer.Exit(FAILED if done.left else 0)


def _describe(done: Forgetting) -> list[str]:
    """Describe the removal and the search, and name the files that the user must delete."""
    rows, vectors = count(done.rows, "row"), count(done.vectors, "vector")
    removed = f"Removed {rows} and everything derived from them, and {vectors}."
    lines = [f"{removed} The index was rebuilt, and its earlier snapshots were deleted."]
    lines += [f"Deleted {report}, since reports show messages." for report in done.reports]
    lines += [f"A process has the earlier snapshot {name} open; rerun this command when that process has ended."
              for name in done.open_snapshots]  # fmt: skip
    searched = f"Queried all tables and the state for {done.wanted:,} texts and ids"
    lines.append(f"{searched}: {'none is left.' if not done.left else 'some are left:'}")
    lines += [f"  {table}: {hits:,} of them" for table, hits in done.left.items()]
    if done.has_history:
        lines.append(
            "Dagster's history may show rows of tables; delete the folder .dagster to lose all of the history."
        )
    lines += [
        f"Edit or delete {file} yourself: it still contains it, but runs no longer read it."
        for file in done.inputs
    ]
    lines += [f"{copy}." for copy in done.copies]
    lines.append("Not searched: backups, and copies of the workspace or of its pages.")
    return lines
