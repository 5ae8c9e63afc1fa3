"""An answer as Markdown: its statements with numbered places, its list of documents, or why there is none."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import date
from typing import Final

from backstory.base.wording import count, inflect
from backstory.writing.answers.answer import Citation, Claim, MadeAnswer, Refusal
from backstory.writing.answers.answering import AnsweredQuestion, list_places
from backstory.writing.answers.catalog import CatalogQuery, Listed

MOST_LISTED: Final = 100
"""Documents of a list that are named; of more, the list says how many there are."""
_TALK: Final = "Ask a question, and I answer it from the documents alone, with the places that say so."
_REFUSALS: Final[Mapping[Refusal, str]] = {
    "not_in_documents": "Nothing that was found clearly answers this.",
    "outside": "No document can say this: it asks for something that changes by the hour, or that is to be computed, "
    "written or done. Ask for what the documents say.",
    "unsafe": "This cannot be answered safely.",
    "no_index": "Nothing is indexed yet, so there is nothing to answer from. `backstory add` reads documents, "
    "`backstory run` chats, too.",
}
_MAY_ANSWER: Final = ("This may answer it:", "These may answer it:")
"""What stands above one quote, and above several, that no model has judged."""
_NONE_FITS: Final = "No document is"
_ASK_AGAIN: Final = "They may tell it in other words. If one is about it, ask again in its words."
_ALL_NAMED: Final = "`backstory documents` names all, with their dates, kinds and tags."
_NEAREST: Final = 3
_UNSUPPORTED: Final = " (not supported by the documents)"


def write_markdown(answered: AnsweredQuestion, cite: Callable[[Citation], str]) -> str:
    """Write an answer as Markdown.

    Args:
        answered: The answer.
        cite: Names the place of a citation.
    """
    made = answered.made
    if answered.route.kind == "casual":
        return _TALK
    if made.refused is not None:
        return _write_refusal(answered, made.refused, cite)
    written = []
    if answered.query is not None and answered.listed is not None:
        written.append(write_list(answered.query, answered.listed))
    if any(claim.probability is not None for claim in made.claims):
        written.append(_MAY_ANSWER[len(made.claims) > 1])
    if made.claims:
        written.append(_write_claims(made, as_list=answered.route.kind == "list"))
    missing = [part.text for part in made.parts if not part.is_found]
    if made.claims and missing:
        written.append("\n".join(f"Nothing that was found clearly answers: {part}" for part in missing))
        written += [f"The nearest passages:\n\n{_write_nearest(made.nearest, cite)}"] if made.nearest else []
    if made.claims:
        written.append(_write_places(made.claims, cite))
    return "\n\n".join(filter(None, written))


def shown_documents(query: CatalogQuery, listed: Sequence[Listed]) -> list[Listed]:
    """Return the documents of a list that are named: as many as were asked for, up to :data:`MOST_LISTED`."""
    return list(listed[: min(query.most or MOST_LISTED, MOST_LISTED)])


def write_list(query: CatalogQuery, listed: Sequence[Listed]) -> str:
    """Write the documents of a list, and whether these are all, which nobody can tell of those on a topic."""
    shown = shown_documents(query, listed)
    if not shown:
        return ""
    if len(shown) < len(listed):
        head = f"{len(shown)} of {count(len(listed), 'document')}:"
    elif query.topic:
        about = " ".join(query.topic)
        head = f"{count(len(listed), 'document')}, found by title, tag or passage for “{about}”; others may tell of it:"
    else:
        head = f"{count(len(listed), 'document')}, which {inflect(len(listed), 'is', 'are')} all:"
    lines = [
        f"- {' '.join(each.title.split())} ({f'{each.date:%Y-%m-%d}, ' if each.date else ''}{each.uri})"
        for each in shown
    ]
    return "\n".join([head, "", *lines])


def _describe_query(query: CatalogQuery) -> str:
    """Say what documents a list asks for, as the question was understood."""
    days = (query.first, query.last)
    before, after = (f"{day:%Y-%m-%d}" if day not in (date.min, date.max) else "" for day in days)
    when = (
        f"of {before} to {after}" if before and after else f"since {before}" if before else f"until {after}"
    )
    said = [
        f"of the kind {' or '.join(query.kinds)}" if query.kinds else "",
        f"a file {' or '.join(query.extensions)}" if query.extensions else "",
        f"tagged {' and '.join(query.tags)}" if query.tags else "",
        f"in the folder {' or '.join(query.folders)}" if query.folders else "",
        when if query.is_dated else "",
        f"on the topic “{' '.join(query.topic)}”" if query.topic else "",
    ]
    return ", ".join(filter(None, said)) or "there, or the filters admit none"


def _write_refusal(answered: AnsweredQuestion, refused: Refusal, cite: Callable[[Citation], str]) -> str:
    said = _REFUSALS[refused]
    query = answered.query
    if query is not None and refused == "not_in_documents":
        said = f"{_NONE_FITS} {_describe_query(query)}. {_ALL_NAMED}"
    is_near = refused == "not_in_documents" and (query is None or bool(query.topic))
    if not is_near or not answered.passages:
        return said
    nearest = _write_nearest(answered.made.nearest, cite) or "\n".join(
        f"- {' '.join(each.title.split())} ({each.cite})" for each in answered.passages[:_NEAREST]
    )
    return "\n".join([f"{said} The nearest passages:", "", nearest, "", _ASK_AGAIN])


def _write_nearest(nearest: Sequence[Citation], cite: Callable[[Citation], str]) -> str:
    return "\n".join(
        f"- {' '.join(each.passage.title.split())}: “{' '.join(each.quote.split()).lstrip('-*+• ')}” ({cite(each)})"
        for each in nearest
    )


def _write_claims(made: MadeAnswer, *, as_list: bool) -> str:
    places = list_places(made.claims)
    lines = [_write_claim(claim, places) for claim in made.claims]
    return "\n".join(f"- {line}" for line in lines) if as_list else "\n\n".join(lines)


def _write_claim(claim: Claim, places: Mapping[tuple[str, int, int], int]) -> str:
    numbers = dict.fromkeys(
        places[(each.passage.document_id, each.char_start, each.char_end)] for each in claim.citations
    )
    marks = "".join(f"[{number}]" for number in numbers)
    mark = f" {marks}" if marks else ""
    return f"{claim.text}{mark}{'' if claim.is_supported else _UNSUPPORTED}"


def _write_places(claims: Sequence[Claim], cite: Callable[[Citation], str]) -> str:
    places = list_places(claims)
    cited = {
        (each.passage.document_id, each.char_start, each.char_end): cite(each)
        for claim in claims
        for each in claim.citations
    }
    return "\n".join(f"[{number}] {cited[place]}" for place, number in places.items())
