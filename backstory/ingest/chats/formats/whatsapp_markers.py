"""Texts that WhatsApp itself writes into a chat: system lines, deletions and edits, in many languages."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Final

import polars as pl

from backstory.ingest.chats.formats.media_placeholders import find_captions
from backstory.ingest.chats.formats.whatsapp_phrases import APP_MARK, match_any

_PHONE: Final = re.compile(r"\+?\d[\d \u00a0()-]{6,}\d ")
_LEAST_WORDS: Final = 4
"""Fewest words in small letters after a name by which a line of any language tells what somebody did."""

_MOST_NAME_WORDS: Final = 6

_EDITED: Final = (
    rf"(?i)[\s\u200e]*<\u200e?{match_any('edited')}[.。]?>$|[\s]*\u200e<\u200e?[^<>\n:：@/]{{8,80}}>$"
)
"""Also in a language that is not listed: what stands between brackets after the mark of the app."""

_DELETED: Final = (
    rf"(?i)^\u200e{match_any('deleted')}[.。][^\n]*$|"
    rf"^\u200e?{match_any('deleted')}(?: by admin [^\n]+)?[.。]?$"
)
_ENCRYPTED: Final = f"(?i){match_any('encrypted')}"
_EVENT: Final = rf"(?i)^\u200e{match_any('events')}(?:[^\pL]|\p{{Lo}}|$)"
_AFTER_NAME: Final = r"^(?:[^\pL\pN]|\p{Lo})"
"""What follows a name where a sentence goes on: in some scripts a letter."""

_ACT: Final = re.compile(rf"\S.*? {match_any('acts')} (?:.* )?{match_any('things')}\b", re.IGNORECASE)


def classify_messages(rows: pl.DataFrame) -> pl.DataFrame:
    """Separate the messages of people from the texts of the app.

    ``rows``: ``author`` (null for a line without one) and ``text``, in any table, in the order of the chat. It returns
    the rows with ``kind``: ``system`` for lines of the app and for deleted messages (which keep their author),
    ``media`` for placeholders of a picture, a voice message or a file, else ``message``. The text of media is the
    caption, null if there is none. ``edited`` says whether the app marks the message as edited. This mark is removed,
    and so is the direction mark that the app puts before its own texts. The app on iOS writes its lines under the name
    of the group, or of whom they are about, after its mark. A marked text is its own if it begins with the name of its
    author or with words for the owner of the phone or a call. All texts of a name are, if each of them is marked, none
    stands for a file, and one of them begins the chat, tells of the encryption, or tells of another person: that is
    the name of the group.
    """
    captions = find_captions(rows["text"])
    text, author = pl.col("text"), pl.col("author")
    plain = text.str.strip_prefix(APP_MARK)
    marked = text.str.starts_with(APP_MARK)
    first = pl.int_range(pl.len()) == 0
    own = plain.str.starts_with(author) & plain.str.slice(author.str.len_chars()).str.contains(_AFTER_NAME)
    found = rows.select(
        author,
        author.is_null().alias("unsigned"),
        text.is_in(list(captions)).fill_null(value=False).alias("media"),
        text.str.contains(_DELETED).fill_null(value=False).alias("deleted"),
        marked.fill_null(value=False).alias("marked"),
        (text.str.contains(_ENCRYPTED) & (marked | first)).fill_null(value=False).alias("encryption"),
        (text.str.contains(_EVENT) | (marked & own)).fill_null(value=False).alias("event"),
        (first | text.is_in(_list_tales(rows, plain))).fill_null(value=False).alias("tells"),
    )
    about_file = pl.col("media") | pl.col("deleted")
    event = pl.col("encryption") | pl.col("event")
    is_group = ((pl.col("marked") | pl.col("encryption")) & ~about_file).all() & (
        event | pl.col("tells")
    ).any()
    by_app = ~pl.col("unsigned") & ~about_file & (event | (pl.col("marked") & is_group.over("author")))
    found = found.with_columns(by_app.alias("by_app"))
    kind = found.select(
        pl.when(pl.col("unsigned") | pl.col("by_app"))
        .then(pl.lit("system"))
        .when("media")
        .then(pl.lit("media"))
        .when("deleted")
        .then(pl.lit("system"))
        .otherwise(pl.lit("message"))
        .alias("kind")
    )["kind"]
    caption = pl.col("text").replace_strict(
        {text: caption or None for text, caption in captions.items()}, default=None, return_dtype=pl.String
    )
    is_edited = pl.col("text").str.contains(_EDITED).fill_null(value=False) & (kind == "message")
    return rows.with_columns(
        kind,
        is_edited.alias("edited"),
        pl.when(~found["by_app"]).then("author").alias("author"),
        pl.when(kind == "media").then(caption).otherwise(plain.str.replace(_EDITED, "")).alias("text"),
    )


def find_told(names: Mapping[str, int]) -> set[str]:
    """Find those of the texts before the first colon of lines that are no names: the app tells what somebody did."""
    return {name for name, lines in names.items() if lines == 1 and _tells(name, names)}


def _tells(name: str, names: Collection[str]) -> bool:
    """Return whether a text tells what somebody did: to the group, or in many words after a name or a number."""
    if _PHONE.match(name) or _ACT.match(name):
        return True
    words = name.split(" ")
    return any(
        " ".join(words[:count]) in names and sum(word[:1].islower() for word in words[count:]) >= _LEAST_WORDS
        for count in range(1, len(words))
    )


def _list_tales(rows: pl.DataFrame, plain: pl.Expr) -> list[str]:
    """List the marked texts that begin with the name of somebody else who writes."""
    authors = set(rows["author"].drop_nulls())
    marked = rows.filter(pl.col("text").str.starts_with(APP_MARK), pl.col("author").is_not_null())
    tales = []
    for author, text, shown in marked.select("author", "text", plain.alias("shown")).iter_rows():
        words = shown.split("\n")[0].split(" ")[:_MOST_NAME_WORDS]
        beginnings = {" ".join(words[: count + 1]).strip("\u2068\u2069") for count in range(len(words))}
        if (beginnings & authors) - {author}:
            tales.append(text)
    return tales
