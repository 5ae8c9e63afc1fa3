"""An answer as Markdown: its statements with numbered places, its list of documents, or why there is none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date
from typing import Final

from backstory.retrieval.found import DocumentEntry
from backstory.writing.answers.answer import Citation, Claim, MadeAnswer, Refusal
from backstory.writing.answers.answering import AnsweredQuestion
from backstory.writing.answers.catalog import CatalogQuery
from backstory.writing.answers.forms import Forms

MOST_LISTED: Final = 100
"""Documents of a list that are named; of more, the list says how many there are."""
_NEAREST: Final = 3


def write_markdown(answered: AnsweredQuestion, forms: Forms) -> str:
    """Write an answer as Markdown, with the forms of what it says around statements and quotes."""
    made = answered.made
    if answered.route.kind == "casual":
        return forms.write("talk")
    if made.refused is not None:
        return _write_refusal(answered, made.refused, forms)
    written = []
    if answered.query is not None and answered.listed is not None:
        written.append(write_list(answered.query, answered.listed, forms))
    if any(claim.probability is not None for claim in made.claims):
        written.append(forms.count("may_answer", len(made.claims)))
    if made.claims:
        written.append(_write_claims(made, forms, as_list=answered.route.kind == "list"))
    missing = [part.text for part in made.parts if not part.is_found]
    if made.claims and missing:
        written.append("\n".join(forms.write("unanswered", part=part) for part in missing))
        if made.nearest:
            written.append(f"{forms.write('nearest')}\n\n{_write_nearest(made.nearest)}")
    if made.claims:
        written.append(_write_places(made.claims))
    return "\n\n".join(filter(None, written))


def shown_documents(query: CatalogQuery, listed: Sequence[DocumentEntry]) -> list[DocumentEntry]:
    """Return the documents of a list that are named: as many as were asked for, up to :data:`MOST_LISTED`."""
    return list(listed[: min(query.most or MOST_LISTED, MOST_LISTED)])


def write_list(query: CatalogQuery, listed: Sequence[DocumentEntry], forms: Forms) -> str:
    """Write the documents of a list, and whether these are all, which nobody can tell of those on a topic."""
    shown = shown_documents(query, listed)
    if not shown:
        return ""
    if len(shown) < len(listed):
        head = forms.count("listed_some", len(listed), shown=len(shown))
    elif query.topic:
        head = forms.count("listed_topic", len(listed), topic=" ".join(query.topic))
    else:
        head = forms.count("listed_all", len(listed))
    lines = [
        f"- {' '.join(each.title.split())} ({f'{each.date:%Y-%m-%d}, ' if each.date else ''}{each.uri})"
        for each in shown
    ]
    return "\n".join([head, "", *lines])


def _describe_query(query: CatalogQuery, forms: Forms) -> str:
    """Say what documents a list asks for, as the question was understood."""
    days = (query.first, query.last)
    first, last = (f"{day:%Y-%m-%d}" if day not in (date.min, date.max) else "" for day in days)
    either, both = f" {forms.write('or')} ", f" {forms.write('and')} "
    when = "between" if first and last else "since" if first else "until"
    least, most = query.pages or (None, None)
    long = "between" if least is not None and most is not None else "to" if least is None else "from"
    said = [
        forms.write("kinds", names=either.join(query.kinds)) if query.kinds else "",
        forms.write("extensions", names=either.join(query.extensions)) if query.extensions else "",
        forms.write("tags", names=both.join(query.tags)) if query.tags else "",
        forms.write("folders", names=either.join(query.folders)) if query.folders else "",
        forms.write(when, first=first, last=last) if query.is_dated else "",
        forms.write(f"pages_{long}", least=least, most=most) if query.pages else "",
        forms.write("topic", topic=" ".join(query.topic)) if query.topic else "",
    ]
    return ", ".join(filter(None, said)) or forms.write("anything")


def _write_refusal(answered: AnsweredQuestion, refused: Refusal, forms: Forms) -> str:
    said = forms.write(refused)
    query = answered.query
    if query is not None and refused == "not_in_documents":
        said = forms.write("no_document", described=_describe_query(query, forms))
    is_near = refused == "not_in_documents" and (query is None or bool(query.topic))
    if not is_near or not answered.passages:
        return said
    nearest = _write_nearest(answered.made.nearest) or "\n".join(
        f"- {' '.join(each.title.split())} ({each.cite})" for each in answered.passages[:_NEAREST]
    )
    return "\n".join([f"{said} {forms.write('nearest')}", "", nearest, "", forms.write("ask_again")])


def _write_nearest(nearest: Sequence[Citation]) -> str:
    return "\n".join(
        f"- {' '.join(each.title.split())}: “{' '.join(each.quote.split()).lstrip('-*+• ')}” ({each.cite})"
        for each in nearest
    )


def _write_claims(made: MadeAnswer, forms: Forms, *, as_list: bool) -> str:
    places = _number_places(made.claims)
    lines = [_write_claim(claim, places, forms) for claim in made.claims]
    return "\n".join(f"- {line}" for line in lines) if as_list else "\n\n".join(lines)


def _write_claim(claim: Claim, places: Mapping[tuple[str, int, int], int], forms: Forms) -> str:
    numbers = dict.fromkeys(places[_place(each)] for each in claim.citations)
    marks = "".join(f"[{number}]" for number in numbers)
    said = [claim.text, marks, "" if claim.supported else forms.write("unsupported")]
    return " ".join(filter(None, said))


def _write_places(claims: Sequence[Claim]) -> str:
    cited = {_place(each): each.cite for claim in claims for each in claim.citations}
    return "\n".join(f"[{number}] {cited[place]}" for place, number in _number_places(claims).items())


def _number_places(claims: Sequence[Claim]) -> dict[tuple[str, int, int], int]:
    """Number the cited places in the order in which they are first cited, from 1."""
    cited = dict.fromkeys(_place(each) for claim in claims for each in claim.citations)
    return {place: number for number, place in enumerate(cited, start=1)}


def _place(citation: Citation) -> tuple[str, int, int]:
    return citation.document_id, citation.char_start, citation.char_end
