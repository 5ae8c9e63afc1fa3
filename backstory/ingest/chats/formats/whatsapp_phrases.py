"""What the app itself writes into WhatsApp exports, in many languages: ``whatsapp_phrases.toml``."""

from __future__ import annotations

import re
import tomllib
import unicodedata
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.resources import files
from typing import Final

import polars as pl

APP_MARK: Final = "\u200e"
"""Left-to-right mark, which the app on iOS writes before its own texts."""

BIDI_MARKS: Final = "\u200e\u200f\u061c\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\ufeff"
ANY_MARK: Final = f"[{BIDI_MARKS}]"


@cache
def _load() -> Mapping[str, Mapping[str, str]]:
    shipped = files("backstory.ingest.chats.formats").joinpath("whatsapp_phrases.toml")
    return tomllib.loads(shipped.read_text(encoding="utf-8"))


def normalize(text: str) -> str:
    """Write a text as it is compared: without direction marks, case and a final full stop."""
    plain = re.sub(ANY_MARK, "", text).strip().removesuffix(".")
    return unicodedata.normalize("NFC", " ".join(plain.split()).lower())


@cache
def list_phrases(*topics: str) -> frozenset[str]:
    """List the phrases of some topics in all languages, normalized."""
    return frozenset(
        normalize(phrase)
        for topic in topics
        for phrases in _load()[topic].values()
        for phrase in phrases.split(", ")
    )


@cache
def match_any(topic: str) -> str:
    """Return a regular expression for any phrase of a topic, the longest that fits, in lower case."""
    longest = sorted(list_phrases(topic), key=lambda phrase: (-len(phrase), phrase))
    return f"(?:{'|'.join(map(re.escape, longest))})"


_FILE_NAME: Final = r"[^<>\n]*\.\w{1,8}"
_ATTACHED: Final = re.compile(rf"<[^<>\n:：]{{2,40}}[:：]\s?{_FILE_NAME}>")
_NAMED_BY_APP: Final = r"(?:IMG|VID|PTT|AUD|STK|DOC)-\d{8}-WA\d{4,}\.\w+ [(（][^()（）\n]+[)）]"


def find_captions(texts: pl.Series) -> dict[str, str]:
    """Find the texts that contain a placeholder for a picture, a voice message or a file."""
    distinct = texts.drop_nulls().unique()
    first_line = distinct.str.replace_all(ANY_MARK, "").str.extract("^([^\n]*)").str.strip_chars()
    may_be = (
        distinct.str.contains(APP_MARK, literal=True)
        | first_line.str.contains("^<|[)）]$")
        | first_line.str.to_lowercase().str.strip_suffix(".").is_in(list(list_phrases("media", "kinds")))
    )
    found = ((text, split_caption(text)) for text in distinct.filter(may_be))
    return {text: caption for text, caption in found if caption is not None}


def split_caption(text: str) -> str | None:
    """Return the caption beside the placeholder in a message, empty if there is none; None without a placeholder.

    Android writes the placeholder into the first line, iOS at the end of the first or last line, after a left-to-right
    mark. The document name that iOS writes before it is no caption.
    """
    lines = text.split("\n")
    if _is_placeholder(lines[0]):
        return _join(lines[1:])
    written, mark, by_app = lines[-1].rpartition(APP_MARK)
    if mark and _is_placeholder(mark + by_app):
        named = len(lines) == 1 and (APP_MARK in written or re.fullmatch(_FILE_NAME, written.strip()))
        return _join([*lines[:-1], "" if named else written])
    return None


def _is_placeholder(line: str) -> bool:
    plain = re.sub(ANY_MARK, "", line).strip()
    exported = rf"(?i:{_NAMED_BY_APP}|{_FILE_NAME} [(（]{match_any('attached')}[)）])"
    if _ATTACHED.fullmatch(plain) or re.fullmatch(exported, plain):
        return True
    in_brackets = plain.startswith("<") and plain.endswith(">")
    phrase = normalize(plain.removeprefix("<").removesuffix(">"))
    by_app = in_brackets or line.lstrip().startswith(tuple(BIDI_MARKS))
    return phrase in list_phrases("media", "kinds") and (by_app or phrase not in list_phrases("also_words"))


def _join(lines: Iterable[str]) -> str:
    return "\n".join(lines).strip().strip(BIDI_MARKS).strip()


_PHONE: Final = re.compile(r"\+?\d[\d \u00a0()-]{6,}\d ")
_LEAST_WORDS: Final = 4
"""Fewest words in small letters after a name by which a line of any language tells what somebody did."""

_MOST_NAME_WORDS: Final = 6

_EDITED: Final = (
    rf"(?i)[\s\u200e]*<\u200e?{match_any('edited')}[.。]?>$|[\s]*\u200e<\u200e?[^<>\n:：@/]{{8,80}}>$"
)
"""Also in a language that is not listed: what stands between brackets after the mark of the app."""

_ENDING: Final = r"\S(\s+<[^<>\n:：@/]{8,80}>)$"
"""What the app on Android may write at the end of a text, in any language."""

_DELETED: Final = (
    rf"(?i)^\u200e{match_any('deleted')}[.。][^\n]*$|"
    rf"^\u200e?{match_any('deleted')}(?: by admin [^\n]+)?[.。]?$"
)
ENCRYPTED: Final = f"(?i){match_any('encrypted')}"
_EVENT: Final = rf"(?i)^\u200e{match_any('events')}(?:[^\pL]|\p{{Lo}}|$)"
_AFTER_NAME: Final = r"^(?:[^\pL\pN]|\p{Lo})"
"""What follows a name where a sentence goes on: in some scripts a letter."""

_ACT: Final = re.compile(rf"\S.*? {match_any('acts')} (?:.* )?{match_any('things')}\b", re.IGNORECASE)


def classify_messages(rows: pl.DataFrame) -> pl.DataFrame:
    """Add ``kind`` and ``edited`` to ``author`` and ``text`` in the order of a chat, and take off what the app writes.

    The app on iOS writes its lines under the name of the group, or of whom they are about, after its mark. A marked
    text is its own if it begins with the name of its author or with words for the owner of the phone or a call. All
    texts of a name that has sent no file are, if each of them is marked, and one of them begins the chat, tells of the
    encryption, or tells of another person; or if one tells of the encryption among more than two who write: that is the
    name of the group. Where a line of the app in a language that is not listed begins the chat, what several people
    have in common is the app's, too: a marked text, or an ending between brackets.
    """
    captions = find_captions(rows["text"])
    author, text = pl.col("author"), pl.col("text").fill_null("")
    plain = pl.col("text").str.strip_prefix(APP_MARK)
    first, marked = pl.int_range(pl.len()) == 0, text.str.starts_with(APP_MARK)
    own = plain.str.starts_with(author) & plain.str.slice(author.str.len_chars()).str.contains(_AFTER_NAME)
    encryption = text.str.contains(ENCRYPTED) & (marked | first)
    is_unlisted = first & ~encryption & (marked | author.is_null())
    event = encryption | text.str.contains(_EVENT) | (marked & own).fill_null(value=False)
    tale, people = text.is_in(_list_tales(rows, plain)), author.drop_nulls().n_unique()
    deleted, edited = text.str.contains(_DELETED), text.str.contains(_EDITED)
    if rows.select(is_unlisted.any()).item():
        ending = text.str.extract(_ENDING).fill_null("")
        deleted |= ~event & marked & (people.over("text") > 1)
        edited |= (ending != "") & (people.over(ending) > 1)
    found = rows.select(
        author,
        media=text.is_in(list(captions)),
        deleted=deleted,
        marked=marked | encryption,
        event=event,
        tells=first | tale | encryption,
        of_group=encryption & marked & (people > 2),
        edited=edited,
    )
    about_file = pl.col("media") | pl.col("deleted")
    is_told = pl.col("marked").all() & pl.col("tells").any()
    is_group = ~about_file.any() & (is_told | pl.col("of_group").any())
    by_app = ~about_file & (pl.col("event") | is_group.over("author"))
    found = found.with_columns(by_nobody=by_app | author.is_null())
    kind = found.select(
        kind=pl.when(pl.col("by_nobody") | (pl.col("deleted") & ~pl.col("media")))
        .then(pl.lit("system"))
        .when("media")
        .then(pl.lit("media"))
        .otherwise(pl.lit("message"))
    )["kind"]
    caption = pl.col("text").replace_strict(
        {text: caption or None for text, caption in captions.items()}, default=None, return_dtype=pl.String
    )
    written = pl.when(found["edited"]).then(plain.str.replace(r"[\s\u200e]*<[^<>]*>$", "")).otherwise(plain)
    return rows.with_columns(
        kind,
        edited=found["edited"] & (kind == "message"),
        author=pl.when(~found["by_nobody"]).then("author"),
        text=pl.when(kind == "media").then(caption).otherwise(written),
    )


def find_told(names: Mapping[str, int]) -> set[str]:
    """Find those of the texts before the first colon of lines that are no names, but tell what somebody did.

    Each stands once. It tells what was done to the group, or goes on in many small words after a name or a number.
    """
    told = set()
    for name in (name for name, lines in names.items() if lines == 1):
        words = name.split(" ")
        ends = (count for count in range(1, len(words)) if " ".join(words[:count]) in names)
        small = max((sum(word[:1].islower() for word in words[end:]) for end in ends), default=0)
        if small >= _LEAST_WORDS or _PHONE.match(name) or _ACT.match(name):
            told.add(name)
    return told


def _list_tales(rows: pl.DataFrame, plain: pl.Expr) -> list[str]:
    """List the marked texts that begin with the name of somebody else who writes."""
    authors = set(rows["author"].drop_nulls().unique())
    marked = rows.filter(pl.col("text").str.starts_with(APP_MARK), pl.col("author").is_not_null())
    tales = []
    for author, text, shown in marked.select("author", "text", plain.alias("shown")).iter_rows():
        words = shown.split("\n")[0].split(" ")[:_MOST_NAME_WORDS]
        beginnings = {" ".join(words[: count + 1]).strip("\u2068\u2069") for count in range(len(words))}
        if (beginnings & authors) - {author}:
            tales.append(text)
    return tales
