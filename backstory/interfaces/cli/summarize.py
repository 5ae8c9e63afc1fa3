"""The command ``backstory summarize``: a document in few words."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from backstory.interfaces.cli.failure import FAILED, INCOMPLETE
from backstory.interfaces.cli.library import DocumentArgument
from backstory.interfaces.cli.options import JsonOption, WorkspaceOption
from backstory.interfaces.cli.terminal import link_file, open_console, plain, print_json, print_notes
from backstory.settings.writers import MAX_WORDS

if TYPE_CHECKING:
    from backstory.interfaces.library.results import Summary


class Style(StrEnum):
    """The styles, as an option takes them."""

    BRIEF = "brief"
    DETAILED = "detailed"
    BULLETS = "bullets"


def summarize(
    document: DocumentArgument,
    style: Annotated[
        Style,
        typer.Option(
            "--style",
            help="brief: a paragraph; detailed: every main point; bullets: a list.",
            show_default=True,
        ),
    ] = Style.DETAILED,
    max_words: Annotated[
        int,
        typer.Option(
            "--max-words-per-section", min=1, metavar="WORDS", help="Maximum number of words per section."
        ),
    ] = MAX_WORDS,
    workspace: WorkspaceOption = None,
    as_json: JsonOption = False,
) -> None:
    """Summarize a document with the model of `summaries` in backstory.yaml, else with sentences of the document.

    The model's answers are cached: you never pay twice for the same section.

    Exit codes: 0 done; 1 no section could be summarized, or a model or table cannot be used; 2 bad usage or settings,
    or no document has this name; 3 done, but a section could not be summarized; 4 a budget is used up.
    """
    from backstory.interfaces.library.library import Library

    with Library.open(workspace) as library:
        made = library.summarize(document, style.value, max_words)
    if as_json:
        print_json(made.to_dict())
    else:
        _print_summary(made, library.workspace.problems)
    if made.status != "success":
        raise typer.Exit(FAILED if made.status == "failed" else INCOMPLETE)


def _print_summary(made: Summary, told: Sequence[str]) -> None:
    """Print a summary, without the warnings already told. A terminal also gets a line of the document and the model."""
    console = open_console()
    if console.is_terminal:
        sections = f"{made.sections_processed} of {made.sections} sections, " if made.sections > 1 else ""
        console.print(
            link_file(made.document.uri, Path(made.document.path)),
            plain(f"{made.document.title}: {made.total_words:,} words, {sections}{made.model}", "dim"),
            soft_wrap=True,
        )
        console.print(plain(made.summary))
    elif made.summary:
        sys.stdout.write(f"{plain(made.summary).plain}\n")
    print_notes([*made.notes, *made.reasons], told)
