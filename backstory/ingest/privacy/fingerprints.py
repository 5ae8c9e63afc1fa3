"""Keyed fingerprints of texts, by which a message or a document is recognised under another name of its file.

A text counts by its letters and digits alone, in lower case, so that another format or another export of the same chat
makes no difference. A message counts with its day, the one before or the one after, and with its minute in a quarter
of an hour, since clocks of time zones differ by whole quarters. A short text, such as "ok", counts with its author,
too, and only in a conversation in which a longer one is recognised, or every message.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
import polars as pl

Prints: TypeAlias = npt.NDArray[np.uint64]
"""Fingerprints, each one number."""

LONG: Final = 20
"""Letters and digits from which a text identifies a message or a document by itself."""

_QUARTER: Final = 15
_MINUTES_OF_DAY: Final = 24 * 60
_NEAR_DAYS: Final = (-1, 0, 1)

# Eight bytes: one in some ten million workspaces takes one of 1,000,000 messages for one of 100,000 that are forgotten.
_STORED: Final = np.dtype(">u8")


def sign_messages(messages: pl.DataFrame, key: bytes) -> Prints:
    """Make the fingerprints of messages: ``timestamp``, ``author`` and ``text``, with real names."""
    timeless = _sign(messages, _plain(messages["text"]), key)
    return timeless ^ _sign_days(_list_days(messages), key)


def sign_documents(texts: pl.Series, key: bytes) -> Prints:
    """Make the fingerprints of those texts of documents that are long enough."""
    plain = _plain(texts)
    return _hash(plain.filter(plain.str.len_chars() >= LONG), key)


def find_signed(messages: pl.DataFrame, known: Prints, key: bytes) -> pl.Series:
    """Return for each message whether its fingerprint is known, or would be a day earlier or later.

    ``messages``: ``timestamp``, ``author`` and ``text``, with real names.
    """
    return _find_signed(messages, _plain(messages["text"]), known, key)


def find_known_messages(messages: pl.DataFrame, known: Prints, key: bytes) -> pl.Series:
    """Return for each message whether it is recognised.

    ``messages``: ``conversation_id``, ``timestamp``, ``author``, ``kind`` and ``text``, with real names.
    """
    plain = _plain(messages["text"])
    found = messages.select(
        "conversation_id",
        _find_signed(messages, plain, known, key),
        is_written=pl.col("kind") == "message",
        is_long=plain.str.len_chars() >= LONG,
    )
    is_signed, is_written = pl.col("signed"), pl.col("is_written")
    all_are_signed = (is_signed | ~is_written).all() & (is_signed & is_written).any()
    is_a_copy = (is_signed & pl.col("is_long")).any() | all_are_signed
    recognised = is_signed & (pl.col("is_long") | is_a_copy.over("conversation_id"))
    return found.select(recognised.alias("known")).to_series()


def find_known_documents(texts: pl.Series, known: Prints, key: bytes) -> pl.Series:
    """Return for each text of a document whether it is recognised."""
    plain = _plain(texts)
    return pl.Series("known", np.isin(_hash(plain, key), known)) & (plain.str.len_chars() >= LONG)


def pack(prints: Prints) -> bytes:
    """Return the bytes of distinct fingerprints, in their order, for :func:`unpack`."""
    return np.unique(prints).astype(_STORED).tobytes()


def unpack(content: bytes) -> Prints:
    """Read what :func:`pack` gave.

    It raises ``ValueError`` if it is cut off.
    """
    return np.frombuffer(content, dtype=_STORED).astype(np.uint64)


def _find_signed(messages: pl.DataFrame, plain: pl.Series, known: Prints, key: bytes) -> pl.Series:
    timeless, days = _sign(messages, plain, key), _list_days(messages)
    near = [np.isin(timeless ^ _sign_days(days + later, key), known) for later in _NEAR_DAYS]
    return pl.Series("signed", np.logical_or.reduce(near))


def _sign(messages: pl.DataFrame, plain: pl.Series, key: bytes) -> Prints:
    """Sign messages without their days."""
    minute = messages["timestamp"].dt.epoch("s") // 60 % _QUARTER
    is_short = plain.str.len_chars() < LONG
    texts = pl.DataFrame(
        {"text": plain, "minute": minute, "short": is_short, "author": _plain(messages["author"])}
    )
    who = pl.when("short").then(pl.format("by {}\0", "author")).otherwise(pl.lit(""))
    return _hash(texts.select(pl.format("{}{}\0{}", who, "text", "minute")).to_series(), key)


def _list_days(messages: pl.DataFrame) -> npt.NDArray[np.int64]:
    return (messages["timestamp"].dt.epoch("s") // 60 // _MINUTES_OF_DAY).to_numpy()


def _sign_days(days: npt.NDArray[np.int64], key: bytes) -> Prints:
    distinct, places = np.unique(days, return_inverse=True)
    return _hash((f"day {day}" for day in distinct.tolist()), key)[places]


def _hash(texts: Iterable[str], key: bytes) -> Prints:
    hashes = b"".join(
        blake2b(text.encode(), key=key, digest_size=_STORED.itemsize).digest() for text in texts
    )
    return unpack(hashes)


def _plain(texts: pl.Series) -> pl.Series:
    """Reduce texts to their letters and digits, in lower case; one without any keeps its other characters."""
    known = texts.cast(pl.String).fill_null("")
    plain = known.str.normalize("NFKC").str.to_lowercase().str.replace_all(r"[^\p{L}\p{N}]", "")
    return pl.select(pl.when(plain == "").then(known.str.strip_chars()).otherwise(plain)).to_series()
