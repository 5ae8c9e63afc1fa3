"""The commands that find text in the documents, and answer from them: ``search``, ``grep`` and ``ask``."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import nullcontext
from datetime import date, datetime, time
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Literal
from zoneinfo import ZoneInfo

import typer
from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from backstory.base.errors import ModelError
from backstory.base.progress import listening
from backstory.base.wording import count
from backstory.interfaces.cli.failure import FAILED
from backstory.interfaces.cli.options import (
    AsOfOption,
    DocumentsOption,
    JsonOption,
    KindsOption,
    PagesOption,
    PathsOption,
    TagsOption,
    WorkspaceOption,
    open_library,
    read_pages,
)
from backstory.interfaces.cli.terminal import (
    link_file,
    open_console,
    plain,
    plain_line,
    print_marked,
    print_notes,
    print_result,
)

if TYPE_CHECKING:
    from backstory.interfaces.library.library import Library
    from backstory.interfaces.library.results import Answer, GrepAnswer, SearchAnswer
    from backstory.writing.answers.answer import Turn


_SNIPPET_CHARACTERS = 240
_INDENT = (0, 0, 0, 3)
_BEFORE = 40
"""Characters of a snippet before the first marked word."""
_MATCH_STYLE = "bold yellow"


def search(
    text: Annotated[str, typer.Argument(metavar="QUESTION", help="Question or words to search for.")],
    top_k: Annotated[
        int | None,
        typer.Option("--top-k", "-k", min=1, help="Most hits. Default: 5 to 25, by the size of the corpus."),
    ] = None,
    document: DocumentsOption = None,
    path: PathsOption = None,
    tag: TagsOption = None,
    kind: KindsOption = None,
    pages: PagesOption = None,
    as_of: AsOfOption = None,
    mode: Annotated[
        Literal["hybrid", "dense", "keyword"] | None,
        typer.Option(help="Order by vectors and keywords, by vectors, or by keywords. Default: rag.ranking."),
    ] = None,
    expand: Annotated[bool, typer.Option("--expand", help="Also search for the content words.")] = False,
    rerank: Annotated[bool, typer.Option("--rerank", help="Rerank by the reranker of the settings.")] = False,
    workspace: WorkspaceOption = None,
    as_json: JsonOption = False,
) -> None:
    """Search the documents for a question.

    Exit codes: 0 done, also if nothing was found; 1 the index or a model cannot be used; 2 bad usage or settings.
    """
    with open_library(workspace) as library:
        filters = _make_filters(library, as_of, documents=document, paths=path, tags=tag, kinds=kind)
        filters["pages"] = read_pages(pages)
        answer = library.search(text, top_k=top_k, filters=filters, mode=mode, expand=expand, rerank=rerank)
        print_result(answer, partial(print_answer, library), as_json=as_json)
    print_notes(answer.notes)


def _make_filters(library: Library, as_of: date | None, **named: list[str] | None) -> dict[str, Any]:
    """Make filters of options; a day ends in the time zone of the conversations."""
    zone = ZoneInfo(library.workspace.settings.conversations.timezone)
    end = None if as_of is None else datetime.combine(as_of, time.max, zone)
    return {name: texts or () for name, texts in named.items()} | {"as_of": end}


def grep(
    pattern: Annotated[str, typer.Argument(metavar="PATTERN", help="Text to look for.")],
    regex: Annotated[bool, typer.Option("--regex", "-e", help="It is a regular expression.")] = False,
    case: Annotated[bool, typer.Option("--case", "-c", help="Distinguish upper and lower case.")] = False,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="Maximum number of matches.")] = 100,
    offset: Annotated[int, typer.Option(min=0, help="Number of matches to skip.")] = 0,
    workspace: WorkspaceOption = None,
    as_json: JsonOption = False,
) -> None:
    """Find every match of a pattern in the texts of the documents.

    Exit codes: 0 done, also if nothing was found; 2 bad usage, such as a pattern that is no regular expression.
    """
    with open_library(workspace) as library:
        answer = library.grep(pattern, regex, limit, offset, ignore_case=not case)
        print_result(answer, partial(print_matches, library), as_json=as_json)
    print_notes(answer.notes)


def print_answer(library: Library, console: Console, answer: SearchAnswer) -> None:
    """Print the hits of a question, with its words marked."""
    from backstory.ingest.sources.listing import make_locator

    if not answer.hits:
        console.print(plain(f"Nothing found: {answer.reason}."))
    elif answer.weak == len(answer.hits):
        console.print("No hit is evidence; these are only the nearest chunks.")
    locate = make_locator(library.workspace)
    for hit in answer.hits:
        dated = f"{hit.date:%Y-%m-%d}" if hit.date else "undated"
        weak = "" if hit.above_threshold else "*"
        figures = plain_line(f", {dated}, probability {hit.probability:.2f}{weak}")
        console.print(plain_line(f"{hit.rank}. {hit.title}", "bold"))
        for line in (
            Text.assemble(link_file(hit.cite, locate(hit.uri)), figures),
            _cut_around(hit.text, library.find_terms(answer.keys, hit.text)),
        ):
            console.print(Padding(line, _INDENT, expand=False))
    if 0 < answer.weak < len(answer.hits):
        console.print("* no evidence: it tells something about it with a probability below one half")
    if answer.left_out:
        console.print(f"{answer.left_out} more found; show more with -k")
    if len(answer.keys) > 1:
        console.print(plain_line(f"Searched for: {'; '.join(answer.keys)}"))


def print_matches(library: Library, console: Console, answer: GrepAnswer) -> None:
    """Print matches, with the matched text marked."""
    from backstory.ingest.sources.listing import make_locator

    locate = make_locator(library.workspace)
    for match in answer.matches:
        page = "" if match.page is None else f"p. {match.page}, "
        end = match.text_start + min(len(match.match), len(match.text) - match.text_start)
        line = Text.assemble(
            link_file(match.uri, locate(match.uri)),
            plain(f": {page}line {match.line}: ", "dim"),
            plain(match.text[: match.text_start].lstrip()),
            plain(match.text[match.text_start : end], _MATCH_STYLE),
            plain(match.text[end:].rstrip()),
        )
        console.print(line, no_wrap=True, overflow="ellipsis")
    where = f" in {count(answer.documents, 'document')}" if answer.count else ""
    console.print(f"{count(answer.count, 'match', 'matches')}{where}")
    if answer.next_offset is not None:
        console.print(f"Next matches: --offset {answer.next_offset}")


def _cut_around(text: str, spans: Sequence[tuple[int, int]]) -> Text:
    """Return the part of a text with most of the marked words, on one line."""
    start = 0
    if len(text) > _SNIPPET_CHARACTERS and spans:
        starts = [first for first, _ in spans]
        reach = _SNIPPET_CHARACTERS - _BEFORE
        best = max(starts, key=lambda one: (sum(one <= other < one + reach for other in starts), -one))
        start = max(0, min(best - _BEFORE, len(text) - _SNIPPET_CHARACTERS))
    end = min(len(text), start + _SNIPPET_CHARACTERS)
    shown, place = Text.assemble(("…" if start else "", "dim")), start
    for first, last in [*((one, other) for one, other in spans if start <= one and other <= end), (end, end)]:
        shown.append_text(plain(text[place:first].replace("\n", " "), "dim"))
        shown.append_text(plain(text[first:last], _MATCH_STYLE))
        place = last
    return shown.append("…" if end < len(text) else "", "dim")


def ask(
    question: Annotated[
        str | None, typer.Argument(metavar="QUESTION", help="Without one: a conversation, until Ctrl-D.")
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
    with open_library(workspace) as library:
        filters = _make_filters(library, as_of, documents=document, paths=path, tags=tag, kinds=kind)
        if question is None:
            _converse(library, filters, as_json=as_json)
        else:
            _ask(library, question, (), filters, as_json=as_json)


def _converse(library: Library, filters: dict[str, Any], *, as_json: bool) -> None:
    """Answer a question from each line, until the end of the input; one that a model fails does not end it."""
    from backstory.writing.answers.answer import UNSEARCHED, Turn

    history: list[Turn] = []
    has_failed = False
    while (line := _read_line()) is not None:
        if not line.strip():
            continue
        try:
            answer = _ask(library, line, history, filters, as_json=as_json)
        except ModelError as error:
            print_marked(open_console(stderr=True), "error", "red", str(error))
            has_failed = True
        else:
            if answer.kind not in UNSEARCHED:
                history.append(Turn(answer.rewritten or answer.question, answer.markdown))
    if has_failed:
        raise typer.Exit(FAILED)


def _read_line() -> str | None:
    """Read a line; None at the end of the input."""
    try:
        return input("> " if sys.stdin.isatty() else "")
    except EOFError:
        return None


def _ask(
    library: Library, question: str, history: Sequence[Turn], filters: dict[str, Any], *, as_json: bool
) -> Answer:
    """Ask a question, with the present step on a terminal, and print the answer; or what a failing model was given."""
    console = open_console(stderr=True)
    try:
        with console.status("routing") if console.is_terminal else nullcontext() as status:

            def follow(step: str, *_: int) -> None:
                if status is not None:
                    status.update(step)

            with listening(follow, draws=status is not None):
                answer = library.answer(question, history=history, filters=filters)
    except ModelError as error:
        for hit in error.hits:
            console.print(plain_line(f"Found: {hit.title} ({hit.cite})"), soft_wrap=True)
        raise
    print_result(answer, print_question_answer, as_json=as_json)
    print_notes(answer.notes)
    return answer


def print_question_answer(console: Console, answer: Answer) -> None:
    """Print an answer; a completed question stands above it."""
    if answer.rewritten is not None:
        console.print(plain_line(f"Understood as: {answer.rewritten}", "dim"), soft_wrap=True)
    console.print(plain(answer.markdown), soft_wrap=not console.is_terminal)
    if answer.claims and answer.confidence == "low":
        console.print(plain("Not sure: read the passages before you rely on it.", "dim"))
