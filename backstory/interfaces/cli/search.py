"""The commands that find text in the documents, and answer from them: ``search``, ``grep`` and ``ask``."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import date, datetime, time
from typing import TYPE_CHECKING, Annotated, Final, Literal
from zoneinfo import ZoneInfo

import typer
from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from backstory.base.errors import ModelError
from backstory.base.progress import listening
from backstory.base.wording import count
from backstory.interfaces.cli.failure import FAILED, print_error
from backstory.interfaces.cli.options import (
    AsOfOption,
    DocumentsOption,
    JsonOption,
    KindsOption,
    PagesOption,
    PathsOption,
    TagsOption,
    VerboseOption,
    WorkspaceOption,
    open_library,
    read_pages,
)
from backstory.interfaces.cli.terminal import (
    link_file,
    open_console,
    plain,
    plain_line,
    print_notes,
    print_result,
)

if TYPE_CHECKING:
    from backstory.interfaces.library.answers import Answer, SearchAnswer
    from backstory.interfaces.library.filters import SearchFilters
    from backstory.interfaces.library.library import Library
    from backstory.interfaces.library.results import GrepAnswer
    from backstory.pipeline.workspace import Workspace
    from backstory.retrieval.found import Hit
    from backstory.text.content_words import FindTerms
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
        typer.Option(
            "-k",
            "--top-k",
            min=1,
            metavar="N",
            help="Maximum number of hits. Default: 5 to 25, by the size of the corpus.",
        ),
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
    expand: Annotated[
        bool, typer.Option("--expand", help="Also search for the content words of the question.")
    ] = False,
    rerank: Annotated[
        bool, typer.Option("--rerank", help="Rerank the hits with the reranker of the settings.")
    ] = False,
    workspace: WorkspaceOption = None,
    verbose: VerboseOption = False,
    as_json: JsonOption = False,
) -> None:
    """Search the documents for a question.

    Exit codes: 0 done, also if nothing was found; 1 the index or a model cannot be used; 2 bad usage or settings.
    """
    with open_library(workspace) as library:
        filters = _make_filters(library, document, path, tag, kind, as_of, pages)
        answer = library.search(text, top_k=top_k, filters=filters, mode=mode, expand=expand, rerank=rerank)

        def show(console: Console, answer: SearchAnswer) -> None:
            print_answer(console, answer, library.find_terms, library.workspace)
            if verbose and answer.hits:
                console.print(f"Searched by {answer.engine} ({answer.reason}), index {answer.index_version}.")

        print_result(answer, show, as_json=as_json)
    print_notes(answer.notes)


def _make_filters(
    library: Library,
    documents: list[str] | None,
    paths: list[str] | None,
    tags: list[str] | None,
    kinds: list[str] | None,
    as_of: date | None,
    pages: str | None = None,
) -> SearchFilters:
    """Make filters of options; a day ends in the time zone of the conversations."""
    from backstory.interfaces.library.filters import SearchFilters

    zone = ZoneInfo(library.workspace.settings.conversations.timezone)
    return SearchFilters(
        documents=documents or (),
        paths=paths or (),
        kinds=kinds or (),
        tags=tags or (),
        pages=read_pages(pages),
        as_of=None if as_of is None else datetime.combine(as_of, time.max, zone),
    )


def grep(
    pattern: Annotated[str, typer.Argument(metavar="PATTERN", help="Text to look for.")],
    regex: Annotated[
        bool, typer.Option("--regex", "-e", help="The pattern is a regular expression.")
    ] = False,
    case: Annotated[bool, typer.Option("--case", "-c", help="Distinguish upper and lower case.")] = False,
    limit: Annotated[
        int, typer.Option("--limit", "-n", min=1, metavar="N", help="Maximum number of matches.")
    ] = 100,
    offset: Annotated[
        int, typer.Option("--offset", min=0, metavar="N", help="Number of matches to skip.")
    ] = 0,
    workspace: WorkspaceOption = None,
    as_json: JsonOption = False,
) -> None:
    """Find every match of a pattern in the texts of the documents.

    Exit codes: 0 done, also if nothing was found; 2 bad usage, such as a pattern that is no regular expression.
    """
    with open_library(workspace) as library:
        answer = library.grep(pattern, regex, limit, offset, ignore_case=not case)
        place = library.workspace
        print_result(answer, lambda console, found: print_matches(console, found, place), as_json=as_json)
    print_notes(answer.notes)


def print_answer(console: Console, answer: SearchAnswer, find_terms: FindTerms, workspace: Workspace) -> None:
    """Print the hits of a question, with its words marked."""
    from backstory.interfaces.library.names import make_locator

    if not answer.hits:
        console.print(plain(f"Nothing found: {answer.reason}."))
    elif answer.weak == len(answer.hits):
        console.print("No hit is evidence; these are only the nearest chunks.")
    locate = make_locator(workspace)
    for hit in answer.hits:
        console.print(plain_line(f"{hit.rank}. {hit.title}", "bold"))
        place = Text.assemble(link_file(hit.cite, locate(hit.uri)), plain_line(f", {_describe(hit)}"))
        snippet = _cut_around(hit.text, find_terms(answer.keys, hit.text))
        for line in (place, snippet):
            console.print(Padding(line, _INDENT, expand=False))
    if 0 < answer.weak < len(answer.hits):
        console.print(
            "* no evidence: it tells something about the question with a probability below one half"
        )
    if answer.left_out:
        console.print(f"{answer.left_out} more found; show more with -k")
    if len(answer.keys) > 1:
        console.print(plain_line(f"Searched for: {'; '.join(answer.keys)}"))


def print_matches(console: Console, answer: GrepAnswer, workspace: Workspace) -> None:
    """Print matches, with the matched text marked."""
    from backstory.interfaces.library.names import make_locator

    locate = make_locator(workspace)
    for match in answer.matches:
        page = "" if match.page is None else f"p. {match.page}, "
        line = plain_line(match.text[: match.text_start].lstrip())
        line.append(" " if line and match.text[: match.text_start].endswith(" ") else "")
        end = match.text_start + min(len(match.match), len(match.text) - match.text_start)
        line.append_text(plain(match.text[match.text_start : end], _MATCH_STYLE))
        line.append_text(plain(match.text[end:].rstrip()))
        head = Text.assemble(
            link_file(match.uri, locate(match.uri)), plain(f": {page}line {match.line}: ", "dim")
        )
        console.print(Text.assemble(head, line), no_wrap=True, overflow="ellipsis")
    where = f" in {count(answer.documents, 'document')}" if answer.count else ""
    console.print(f"{count(answer.count, 'match', 'matches')}{where}")
    if answer.next_offset is not None:
        console.print(f"Next matches: --offset {answer.next_offset}")


def _describe(hit: Hit) -> str:
    dated = f"{hit.date:%Y-%m-%d}" if hit.date else "undated"
    return f"{dated}, probability {hit.probability:.2f}{'' if hit.above_threshold else '*'}"


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
    with open_library(workspace) as library:
        filters = _make_filters(library, document, path, tag, kind, as_of)
        if question is None:
            _converse(library, filters, as_json=as_json)
        else:
            _show(_ask(library, question, (), filters), as_json=as_json)


def _converse(library: Library, filters: SearchFilters, *, as_json: bool) -> None:
    """Answer a question from each line, until the end of the input; one that a model fails does not end it."""
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
        _show(answer, as_json=as_json)
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


def _show(answer: Answer, *, as_json: bool) -> None:
    print_result(answer, print_question_answer, as_json=as_json)
    print_notes(answer.notes)


def print_question_answer(console: Console, answer: Answer) -> None:
    """Print an answer; a completed question stands above it."""
    if answer.rewritten is not None:
        console.print(plain_line(f"Understood as: {answer.rewritten}", "dim"), soft_wrap=True)
    console.print(plain(answer.markdown), soft_wrap=not console.is_terminal)
    if answer.claims and answer.confidence == "low":
        console.print(plain("Not sure: read the passages before you rely on it.", "dim"))
