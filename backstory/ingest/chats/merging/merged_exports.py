"""Merging exports of one conversation, whether from several phones or from one phone at several times."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import polars as pl

from backstory.ingest.chats.formats.whatsapp_locales import BIDI_MARKS
from backstory.ingest.chats.merging.export_groups import ExportGroups, Merge, MergedExports

__all__ = ["Merge", "MergedExports", "merge_exports"]

_MENTION: Final = "@\u2068[^\u2069\n]{1,100}\u2069|@\\+?[0-9]{7,15}"


def merge_exports(messages: pl.DataFrame) -> MergedExports:
    """Find exports of the same conversation by shared texts, and unify their names and clocks.

    Two exports belong to one conversation under two conditions. First, they share enough texts that occur once in
    each, in the same order, with a constant time difference: a multiple of a quarter hour (another time zone), with
    a tolerance of three minutes. Second, most messages in the period that both cover are in both. Fewer shared texts
    are enough for a copy (``name (1).txt``) and for files of one subfolder.

    One export leads: an export in a subfolder, else the first by name, with copies after their original. Its names
    of people and its clock are used for all. A message that is also in another export gets the leading export's
    time, author and text there, so that both get the same id. A message that is only in the other export keeps its
    text; its time and author are converted. Lines of the app and media have different texts in each language, so they
    are matched by author, kind and time.

    Exports that identify their messages are left as they are: the ids say which of them are the same.

    ``messages``: messages of any number of exports, each in the order of its file: ``conversation_id``, ``timestamp``,
    ``author``, ``text``, ``kind``, ``key`` (null if the export identifies none) and ``source``.
    """
    is_identified = messages.select(pl.col("key").is_not_null().any().over("source")).to_series()
    compared = messages.filter(~is_identified)
    if compared["source"].n_unique() < 2:
        return MergedExports(messages)
    groups = ExportGroups(compared, _normalize(compared))
    pairs = groups.find_candidates()
    if not pairs:
        return MergedExports(messages)
    merged = groups.merge(pairs)
    if not is_identified.any():
        return merged
    place = pl.int_range(pl.len(), dtype=pl.Int64).alias("place")
    places = messages.select(place).to_series()
    rows = pl.concat(
        [
            merged.messages.with_columns(places.filter(~is_identified)),
            messages.filter(is_identified).with_columns(places.filter(is_identified)),
        ]
    )
    return replace(merged, messages=rows.sort("place").drop("place"))


def _normalize(messages: pl.DataFrame) -> pl.DataFrame:
    """Return the messages with a text ``norm`` without the parts that differ by phone: mentioned names and marks."""
    mentions = sorted(
        (f"@{name}" for name in messages["author"].drop_nulls().unique()), key=len, reverse=True
    )
    text = (
        pl.col("text")
        .str.replace_all(_MENTION, "@")
        .str.replace_many(mentions, ["@"] * len(mentions), leftmost=True)
        .str.replace_all(f"[{BIDI_MARKS}]", "")
        .str.replace_all(r"\s+", " ")
        .str.strip_chars()
        .fill_null("")
    )
    return messages.select("source", "timestamp", "author", "kind", text.alias("norm"))
