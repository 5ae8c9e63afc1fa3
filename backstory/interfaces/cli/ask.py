"""The command ``backstory ask``: a question, or a conversation, answered from the documents."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, time
from typing import TYPE_CHECKING, Annotated, Final
from zoneinfo import ZoneInfo

import typer
from rich.console import Console

from backstory.base.errors import ModelError
from backstory.base.progress import listening
from backstory.interfaces.cli.failure import FAILED, print_error
from backstory.interfaces.cli.loading import loading
from backstory.interfaces.cli.options import (
    AsOfOption,
    DocumentsOption,
    JsonOption,
    KindsOption,
    PathsOption,
    TagsOption,
    WorkspaceOption,
)
from backstory.interfaces.cli.terminal import open_console, plain, plain_line, print_json, print_notes

if TYPE_CHECKING:
    from backstory.interfaces.library.answer import Answer
    from backstory.interfaces.library.filters import SearchFilters
    from backstory.interfaces.library.library import Library
    from backstory.writing.answers.answer import Turn

_PROMPT: Final = "> "


def ask(
    question: Annotated[
        str | None,
        typer.Argument(metavar="[QUESTION]", help="The question. Without one: a conversation, until Ctrl-D."),
    ] = None,
    document: DocumentsOption = None,
    path: PathsOption = None,
    tag: TagsOption = None,
    kind: KindsOption = None,
    as_of: AsOfOption = None,
    workspace: WorkspaceOption = None,
    as_json: JsonOption = False,
) -> None:
    """Answer a question from the documents alone, with a citation for each statement.

    The model of `answers` in backstory.yaml answers, else sentences of the documents do. Without a question, the
    command reads a question from each line, and a later one may refer to earlier ones.

    Exit codes: 0 done, even if the documents hold no answer; 1 the index or a model cannot be used; 2 bad usage or
    settings; 4 a budget is used up.
    """
    with loading():
        from backstory.interfaces.library.filters import SearchFilters
        from backstory.interfaces.library.library import Library

    filters = SearchFilters(documents=document or (), paths=path or (), kinds=kind or (), tags=tag or ())
    with Library.open(workspace) as library:
        if as_of is not None:
            zone = ZoneInfo(library.workspace.settings.conversations.timezone)
            filters = replace(filters, as_of=datetime.combine(as_of, time.max, zone))
        if question is None:
            _converse(library, filters, as_json=as_json)
        else:
            _show(library, _ask(library, question, (), filters), as_json=as_json)


def _converse(library: Library, filters: SearchFilters, *, as_json: bool) -> None:
    """Answer a question from each line, until the end of the input; one that a model fails does not end it.

    Raises:
        Exit: The model gave no answer to a question.
    """
    from backstory.writing.answers.answer import UNSEARCHED, Turn

    history: list[Turn] = []
    has_failed = False
    while (line := _read_line()) is not None:
        if not line.strip():
            continue
        try:
            answer = _ask(library, line, history, filters)
        except ModelError as error:
            print_error(error)
            has_failed = True
            continue
        _show(library, answer, as_json=as_json)
        if answer.kind not in UNSEARCHED:
            history.append(Turn(answer.rewritten or answer.question, answer.markdown))
    if has_failed:
        raise typer.Exit(FAILED)


def _ask(library: Library, question: str, history: Sequence[Turn], filters: SearchFilters) -> Answer:
    """Ask a question, and show the present step on a terminal. If the model fails, name what was found."""
    console = open_console(stderr=True)
    try:
        if not console.is_terminal:
            return library.answer(question, history=history, filters=filters)
        with console.status("routing") as status:

            def follow(step: str, done: int, total: int) -> None:  # noqa: ARG001 - the signature of a listener
                status.update(step)

            with listening(follow, draws=True):
                return library.answer(question, history=history, filters=filters)
    except ModelError as error:
        for hit in error.hits:
            console.print(plain_line(f"Found: {hit.title} ({hit.cite})"), soft_wrap=True)
        raise


def _read_line() -> str | None:
    """Read a line; None at the end of the input."""
    try:
        return input(_PROMPT if sys.stdin.isatty() else "")
    except EOFError:
        return None


def _show(library: Library, answer: Answer, *, as_json: bool) -> None:
    if as_json:
        print_json(answer.to_dict())
    else:
        print_question_answer(open_console(), answer)
    print_notes(answer.notes, library.workspace.problems)


def print_question_answer(console: Console, answer: Answer) -> None:
    """Print an answer; a completed question stands above it."""
    if answer.rewritten is not None:
        console.print(plain_line(f"Understood as: {answer.rewritten}", "dim"), soft_wrap=True)
    console.print(plain(answer.markdown), soft_wrap=not console.is_terminal)
    if answer.claims and answer.confidence == "low":
        console.print(plain("Not sure: read the passages before you rely on it.", "dim"))
