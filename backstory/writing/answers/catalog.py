"""Questions about the documents themselves: what of the catalog they describe, by date, pages, kind, folder, words."""

from __future__ import annotations

import re
import tomllib
from calendar import monthrange
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Any, Final, TypeAlias

from backstory.retrieval.found import DocumentEntry
from backstory.text.words import find_stemmer, find_terms, list_content_words, list_stop_words, terms_of
from backstory.writing.answers.forms import choose_forms
from backstory.writing.answers.routing import fold, names_documents

_WORDS_FILE: Final = Path(__file__).with_name("catalog.toml")
_YEAR: Final = r"(?:19|20)\d\d"
_DAY: Final = rf"(?P<dy>{_YEAR})-(?P<dm>0[1-9]|1[0-2])(?:-(?P<dd>0[1-9]|[12]\d|3[01]))?"
_OF_MONTH: Final = r"(?P<md>0?[1-9]|[12]\d|3[01])(?:st|nd|rd|th|er|\.)? (?:of |de |di )?"
_FIRST, _LAST = date(1, 1, 1), date(9999, 12, 31)

_EXACT: Final = "exact"
_Bounds: TypeAlias = tuple[int | None, int | None]
_BOUNDING: Final[Mapping[str, Callable[[int], _Bounds]]] = {
    "over": lambda number: (number + 1, None),
    "least": lambda number: (number, None),
    "under": lambda number: (None, number - 1),
    "most": lambda number: (None, number),
    _EXACT: lambda number: (number, number),
}
"""Least and most pages by the words for them, in ``catalog.toml``, the plainest last."""


@dataclass(frozen=True)
class CatalogQuery:
    """What a question says of the documents that it asks for.

    Attributes:
        first: First day.
        last: Last day, inclusive.
        is_dated: Whether the question names a time.
        pages: Least and most number of pages, each None for any; None if the question names none.
        extensions: Endings of file names.
        kinds: Kinds.
        tags: Tags, each of which a document must have.
        folders: Folders, one of which must hold a document.
        topic: Content words that describe the documents otherwise.
        is_tagged: Whether some document has tags of all these words.
        most: Number of documents that are asked for; None for all.
        newest_first: Whether the newest come first; None if the question does not say.
        asks_number: Whether the question asks only how many there are.
    """

    first: date = _FIRST
    last: date = _LAST
    is_dated: bool = False
    pages: tuple[int | None, int | None] | None = None
    extensions: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()
    topic: tuple[str, ...] = ()
    is_tagged: bool = False
    most: int | None = None
    newest_first: bool | None = None
    asks_number: bool = False


def find_relative_time(question: str) -> str | None:
    """Return the first words of a question that name a time by the present day, such as "last year"; None without."""
    text = fold(question)
    found = [each for pattern in _read_words().relative.values() for each in pattern.finditer(text)]
    return min(found, key=lambda each: each.start())[0] if found else None


def read_catalog_query(
    question: str, documents: Sequence[DocumentEntry], stemmer: str, today: date
) -> CatalogQuery | None:
    """Read what a question says of the documents that it asks for.

    Args:
        question: A question for a list, self-contained.
        documents: The catalog, whose kinds, tags and folders are known words.
        stemmer: Stemmer of most of the documents.
        today: The present day, on which "last year" depends.

    Returns:
        The query; None if the question does not ask for documents, but for something that they tell.
    """
    words = _read_words()
    text = fold(question)
    tags = {tag: fold(tag) for document in documents for tag in document.tags}
    kinds = {document.kind: fold(document.kind) for document in documents if document.kind}
    folders = {
        str(parent): fold(parent.name) for each in documents for parent in PurePosixPath(each.uri).parents
    }
    pages, rest = _take_pages(text, words.pages)
    first, last, rest = _take_dates(rest, words, today)
    extensions, rest = _take_named(rest, words.extensions)
    named_tags, rest = _take_after(rest, words.tags, tags)
    named_folders, rest = _take_after(rest, words.folders, folders)
    own = {kind: _words([rf"{re.escape(folded)}(?:s|e|n|en)?"]) for kind, folded in kinds.items()}
    called, rest = _take_named(rest, own)
    # A word such as "articles" names posts only where no kind is called so.
    meant, rest = _take_named(rest, {kind: words.kinds[kind] for kind in kinds if kind in words.kinds})
    named_kinds = tuple(dict.fromkeys([*called, *meant]))
    if not (names_documents(text) or pages or extensions or named_tags or named_folders or named_kinds):
        return None
    most, newest_first, rest = _take_order(rest, words)
    rest = words.generic.sub(" ", rest)
    filling = list_stop_words(find_stemmer(choose_forms(question).language))
    filled = {word for each in filling for word in fold(each).split()}
    topic = [
        word
        for word in list_content_words(words.asking.sub(" ", rest), stemmer)
        if len(word) > 1 and word not in filled
    ]
    return CatalogQuery(
        first=first or _FIRST,
        last=last or _LAST,
        is_dated=first is not None or last is not None,
        pages=pages,
        extensions=extensions,
        kinds=named_kinds,
        tags=named_tags,
        folders=named_folders,
        topic=tuple(topic),
        is_tagged=bool(topic) and _has_tags(documents, topic, stemmer),
        most=most,
        newest_first=newest_first,
        asks_number=bool(words.counting.search(text)),
    )


def select_documents(
    query: CatalogQuery, documents: Sequence[DocumentEntry], serving: Collection[str], stemmer: str
) -> list[DocumentEntry]:
    """Select the documents that a query describes, all of them, in the order that it asks for.

    Args:
        query: The query.
        documents: The catalog.
        serving: Ids of the documents with a passage on the topic of the question.
        stemmer: Stemmer of most of the documents.
    """
    topic = [terms_of(word, stemmer) for word in query.topic]

    def is_on_topic(document: DocumentEntry) -> bool:
        if document.document_id in serving:
            return True
        path = document.uri.replace("/", " ").replace("-", " ").replace("_", " ")
        held = find_terms([document.title, path, document.kind, *document.tags], stemmer)
        return all(terms & held for terms in topic)

    found = [
        document
        for document in documents
        if (not query.is_dated or (document.date and query.first <= document.date.date() <= query.last))
        and (query.pages is None or _is_within(document.pages, *query.pages))
        and (not query.extensions or document.uri.lower().endswith(query.extensions))
        and (not query.kinds or document.kind in query.kinds)
        and set(query.tags) <= set(document.tags)
        and (not query.folders or any(document.uri.startswith(f"{folder}/") for folder in query.folders))
        and (not topic or is_on_topic(document))
    ]
    newest = bool(query.newest_first)
    undated = _FIRST if newest else _LAST
    found.sort(key=lambda one: (one.date.date() if one.date else undated, one.uri), reverse=newest)
    return found


def _has_tags(documents: Sequence[DocumentEntry], topic: Sequence[str], stemmer: str) -> bool:
    wanted = [terms_of(word, stemmer) for word in topic]
    held = (find_terms(tags, stemmer) for tags in {document.tags for document in documents})
    return any(all(terms & found for terms in wanted) for found in held)


def _is_within(pages: int | None, least: int | None, most: int | None) -> bool:
    return pages is not None and (least is None or pages >= least) and (most is None or pages <= most)


@dataclass(frozen=True)
class _PageWords:
    """What a question says of the number of pages.

    Attributes:
        stated: Finds a number of pages with the words that bound it.
        numbers: Numbers by their words.
        articles: Words for one that also are articles.
        filling: What else such a question says of the length.
    """

    stated: re.Pattern[str]
    numbers: Mapping[int, re.Pattern[str]]
    articles: re.Pattern[str]
    filling: re.Pattern[str]

    def read(self, said: str) -> int:
        """Read a number."""
        named = next((number for number, words in self.numbers.items() if words.fullmatch(said)), None)
        return int(said) if named is None else named


@dataclass(frozen=True)
class _Words:
    generic: re.Pattern[str]
    kinds: Mapping[str, re.Pattern[str]]
    asking: re.Pattern[str]
    counting: re.Pattern[str]
    extensions: Mapping[str, re.Pattern[str]]
    moments: re.Pattern[str]
    relative: Mapping[str, re.Pattern[str]]
    before: re.Pattern[str]
    after: re.Pattern[str]
    since: re.Pattern[str]
    newest: re.Pattern[str]
    oldest: re.Pattern[str]
    numbers: Mapping[int, re.Pattern[str]]
    tags: re.Pattern[str]
    folders: re.Pattern[str]
    pages: _PageWords


@cache
def _read_words() -> _Words:
    record: dict[str, Any] = tomllib.loads(_WORDS_FILE.read_text(encoding="utf-8"))
    months = record["months"]
    named = "|".join(f"(?P<m{number}>{'|'.join(names)})" for number, names in months.items())
    month = rf"(?:{_OF_MONTH})?(?:{named})\.?(?: (?:de|del|do|di) | )?(?P<my>{_YEAR})"
    moment = rf"\b(?:{_DAY}|{month}|(?P<y>{_YEAR}))\b"
    dates = record["dates"]

    def before_a_date(names: Sequence[str]) -> re.Pattern[str]:
        return re.compile(rf"\b(?:{'|'.join(names)})(?: the| le| el| il| o)? $")

    return _Words(
        generic=_words(record["generic"]["words"]),
        kinds={kind: _words(names) for kind, names in record["kinds"].items()},
        asking=_words(record["asking"]["words"]),
        counting=_words(record["counting"]["words"]),
        extensions={f".{name}": _words(names) for name, names in record["extensions"].items()},
        moments=re.compile(moment),
        relative={name: _words(names) for name, names in record["relative"].items()},
        before=before_a_date(dates["before"]),
        after=before_a_date(dates["after"]),
        since=before_a_date(dates["since"]),
        newest=_words(record["order"]["newest"]),
        oldest=_words(record["order"]["oldest"]),
        numbers={int(number): _words(names) for number, names in record["numbers"].items()},
        tags=_words(record["tags"]["named"]),
        folders=_words(record["folders"]["named"]),
        pages=_make_page_words(record["pages"], record["numbers"]),
    )


def _make_page_words(record: Mapping[str, list[str]], numbers: Mapping[str, list[str]]) -> _PageWords:
    known = {
        int(number): [*names, *(record["one"] if number == "1" else ())] for number, names in numbers.items()
    }
    said = rf"\d{{1,5}}|{_either([name for names in known.values() for name in names])}"
    before = _name_groups(record, {name: name for name in _BOUNDING})
    between, after = (
        _name_groups(record, {f"{name}{place}": f"{name}_after" for name in _BOUNDING if name != _EXACT})
        for place in (1, 2)
    )
    number = rf"(?P<number>{said})(?: ?(?:{_either(record['to'])}) ?(?P<second>{said}))?"
    adjective = rf"[ -]?(?P<adjective>{_either(record['adjectives'])})"
    names = rf"(?:\+ ?| |(?<=\d))(?:(?:{between}) )?(?:{_either(record['names'])})(?: (?:{after}))?"
    return _PageWords(
        stated=re.compile(rf"\b(?:(?:{before}) )?{number}(?:{adjective}|{names})\b"),
        numbers={number: re.compile(_either(names)) for number, names in known.items()},
        articles=re.compile(_either(record["one"])),
        filling=_words(record["filling"]),
    )


def _name_groups(record: Mapping[str, list[str]], named: Mapping[str, str]) -> str:
    return "|".join(f"(?P<{group}>{_either(record[name])})" for group, name in named.items())


def _words(names: Sequence[str]) -> re.Pattern[str]:
    return re.compile(rf"\b(?:{_either(names)})\b")


def _either(names: Sequence[str]) -> str:
    return "|".join(sorted(names, key=len, reverse=True))


def _take_pages(text: str, words: _PageWords) -> tuple[_Bounds | None, str]:
    """Find the number of pages that a text names, and cut it out with what else it says of the length."""
    found = words.stated.search(text)
    if found is None:
        return None, text
    least = words.read(found["number"])
    said = next(
        (name for name in _BOUNDING if any(found[f"{name}{place}"] for place in _places_of(name))), None
    )
    is_article = words.articles.fullmatch(found["number"])
    if found["second"]:
        bounds: _Bounds = least, words.read(found["second"])
    elif "+" in found[0]:
        bounds = least, None
    elif said in (None, _EXACT) and (is_article or not (said or found["adjective"])):
        return None, text
    else:
        bounds = _BOUNDING[said or _EXACT](least)
    return bounds, words.filling.sub(" ", f"{text[: found.start()]} {text[found.end() :]}")


def _places_of(name: str) -> tuple[str, ...]:
    """Return where a word that bounds a number stands: before it, and before or after the word for pages."""
    return ("",) if name == _EXACT else ("", "1", "2")


def _take_dates(text: str, words: _Words, today: date) -> tuple[date | None, date | None, str]:
    """Find the time that a text names, and cut it out."""
    moments = [(each.span(), *_bound(each)) for each in words.moments.finditer(text)]
    moments += [
        (each.span(), *_BOUNDS[name](today))
        for name, pattern in words.relative.items()
        for each in pattern.finditer(text)
    ]
    if not moments:
        return None, None, text
    rest = words.moments.sub(" ", text)
    for pattern in words.relative.values():
        rest = pattern.sub(" ", rest)
    (start, end), first, last = moments[0]
    if len(moments) > 1:
        return min(each[1] for each in moments), max(each[2] for each in moments), rest
    head, tail = text[:start], text[end:]
    if found := words.before.search(head):
        return None, first - timedelta(days=1), f"{head[: found.start()]} {tail}"
    if found := words.after.search(head):
        return last + timedelta(days=1), None, f"{head[: found.start()]} {tail}"
    if words.since.search(head) and not head.endswith(("from ", "de ", "del ", "dal ")):
        return first, None, rest
    return first, last, rest


def _bound_month(day: date) -> tuple[date, date]:
    return day.replace(day=1), day.replace(day=monthrange(day.year, day.month)[1])


def _bound_week(day: date) -> tuple[date, date]:
    monday = day - timedelta(days=day.weekday())
    return monday, monday + timedelta(days=6)


_BOUNDS: Final[Mapping[str, Callable[[date], tuple[date, date]]]] = {
    "this year": lambda today: (date(today.year, 1, 1), date(today.year, 12, 31)),
    "last year": lambda today: (date(today.year - 1, 1, 1), date(today.year - 1, 12, 31)),
    "this month": _bound_month,
    "last month": lambda today: _bound_month(today.replace(day=1) - timedelta(days=1)),
    "this week": _bound_week,
    "last week": lambda today: _bound_week(today - timedelta(days=7)),
    "today": lambda today: (today, today),
    "yesterday": lambda today: (today - timedelta(days=1),) * 2,
}
"""First and last day of the times that depend on the present day; a week begins on Monday."""


def _bound(found: re.Match[str]) -> tuple[date, date]:
    year = int(found["dy"] or found["my"] or found["y"])
    month = next((number for number in range(1, 13) if found[f"m{number}"]), None)
    month = int(found["dm"]) if found["dm"] else month
    if month is None:
        return date(year, 1, 1), date(year, 12, 31)
    days = monthrange(year, month)[1]
    if stated := found["dd"] or found["md"]:
        day = date(year, month, min(days, int(stated)))
        return day, day
    return date(year, month, 1), date(year, month, days)


def _take_named(text: str, named: Mapping[str, re.Pattern[str]]) -> tuple[tuple[str, ...], str]:
    found = tuple(name for name, pattern in named.items() if pattern.search(text))
    for name in found:
        text = named[name].sub(" ", text)
    return found, text


def _take_after(text: str, marks: re.Pattern[str], known: Mapping[str, str]) -> tuple[tuple[str, ...], str]:
    """Find the known names that stand next to a word such as "tag" or "folder"; an unknown one fits no document."""
    mark = marks.search(text)
    if mark is None:
        return (), text
    rest = f"{text[: mark.start()]} {text[mark.end() :]}"
    after, before = text[mark.end() :].strip(), text[: mark.start()].strip()
    ordered = sorted(known.items(), key=lambda each: -len(each[1]))
    for name, folded in ordered:
        if folded and (
            re.match(rf"(?:\w+ )?{re.escape(folded)}\b", after)
            or re.search(rf"\b{re.escape(folded)}$", before)
        ):
            return (name,), re.sub(rf"\b{re.escape(folded)}\b", " ", rest)
    unknown = after.split(" ", 1)[0].strip(" ?!.,") if after else ""
    return ((unknown,), rest.replace(unknown, " ", 1)) if unknown else ((), rest)


def _take_order(text: str, words: _Words) -> tuple[int | None, bool | None, str]:
    """Find how many documents are asked for, and whether the newest or the oldest."""
    newest, oldest = words.newest.search(text), words.oldest.search(text)
    found = newest or oldest
    if found is None:
        return None, None, text
    around = text[max(0, found.start() - 12) : found.end() + 12]
    stated = re.search(r"\b\d{1,3}\b", around)
    number = (
        int(stated[0])
        if stated
        else next((number for number, pattern in words.numbers.items() if pattern.search(around)), None)
    )
    rest = f"{text[: found.start()]} {text[found.end() :]}"
    if stated:
        rest = rest.replace(stated[0], " ", 1)
    for pattern in words.numbers.values():
        rest = pattern.sub(" ", rest)
    return number, newest is not None, rest
