"""The commands that find text in the documents: ``search`` and ``grep``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, time
from typing import TYPE_CHECKING, Annotated, Literal
from zoneinfo import ZoneInfo

import typer
from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from backstory.base.wording import count
from backstory.interfaces.cli.loading import loading
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
    read_pages,
)
from backstory.interfaces.cli.terminal import (
    link_file,
    open_console,
    plain,
    plain_line,
    print_json,
    print_notes,
)

if TYPE_CHECKING:
    from backstory.interfaces.library.results import GrepAnswer, Hit, SearchAnswer
    from backstory.pipeline.workspace import Workspace
    from backstory.text.content_words import FindTerms

_SNIPPET_CHARACTERS = 240
_INDENT = (0, 0, 0, 3)
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
    with loading():
        from backstory.interfaces.library.filters import SearchFilters
        from backstory.interfaces.library.library import Library

    filters = SearchFilters(
        documents=document or (),
        paths=path or (),
        kinds=kind or (),
        tags=tag or (),
        pages=read_pages(pages),
    )
    with Library.open(workspace) as library:
        if as_of is not None:
            zone = ZoneInfo(library.workspace.settings.conversations.timezone)
            filters = replace(filters, as_of=datetime.combine(as_of, time.max, zone))
        answer = library.search(text, top_k=top_k, filters=filters, mode=mode, expand=expand, rerank=rerank)
        if as_json:
            print_json(answer.to_dict())
        else:
            console = open_console()
            print_answer(console, answer, library.find_terms, library.workspace)
            if verbose:
                print_engine(console, answer)
    print_notes(answer.notes, library.workspace.problems)


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
    from backstory.interfaces.library.library import Library

    with Library.open(workspace) as library:
        answer = library.grep(pattern, regex, limit, offset, ignore_case=not case)
        if as_json:
            print_json(answer.to_dict())
        else:
            print_matches(open_console(), answer, library.workspace)
    print_notes(answer.notes, library.workspace.problems)


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


def print_engine(console: Console, answer: SearchAnswer) -> None:
    """Print which engine has searched, why this one, and in which snapshot."""
    if answer.hits:
        console.print(f"Searched by {answer.engine} ({answer.reason}), index {answer.index_version}.")


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
    start = _find_densest(len(text), spans)
    end = min(len(text), start + _SNIPPET_CHARACTERS)
    shown = Text.assemble(("…" if start else "", "dim"))
    place = start
    for first, last in spans:
        if first < place or last > end:
            continue
        shown.append_text(plain(text[place:first].replace("\n", " "), "dim"))
        shown.append_text(plain(text[first:last], _MATCH_STYLE))
        place = last
    shown.append_text(plain(text[place:end].replace("\n", " "), "dim"))
    shown.append("…" if end < len(text) else "", "dim")
    return shown


def _find_densest(length: int, spans: Sequence[tuple[int, int]]) -> int:
    if length <= _SNIPPET_CHARACTERS or not spans:
        return 0
    starts = [first for first, _ in spans]
    best = max(
        starts,
        key=lambda start: (
            sum(start <= other < start + _SNIPPET_CHARACTERS - 40 for other in starts),
            -start,
        ),
    )
    return max(0, min(best - 40, length - _SNIPPET_CHARACTERS))
