"""Names in place of real ones: keyed pseudonyms, by which the tables know people, and words that readers see.

The people of a chat are who writes in it, and members of a group in the lines that the app writes: who added whom, who
left, who changed something. The search for what is left reads each text as the replacement does, and once more by a few
lines that share nothing with it, for the words of a full name, one after the other.

Readers see plants and birds. Each person prefers the words in an order of its own, derived from the pseudonym; who was
seen first in a conversation takes the first word, and everyone later the first that is free. So whoever joins renames
nobody, but a person whose word could be taken for the name of who joins.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import logging
import os
import re
import secrets
import unicodedata
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cache, lru_cache, partial
from importlib.resources import files
from itertools import count, repeat
from pathlib import Path
from typing import Final

import polars as pl
import regex

from backstory.base.errors import WorkspaceError
from backstory.base.files.atomic import exclusive_temporary, publish, temporary_path
from backstory.base.ids import PSEUDONYM_PREFIX, digest
from backstory.ingest.privacy.forms import fold, is_unspaced
from backstory.ingest.privacy.names import BLANK, NOTHING, NameFinder, Place
from backstory.storage.tables.catalog import Entry
from backstory.storage.tables.tables import Tables

_logger = logging.getLogger(__name__)

PSEUDONYM: Final = f"{PSEUDONYM_PREFIX}[0-9a-f]{{10}}"
"""Pattern of a pseudonym."""
_SECRET_BYTES: Final = 32
_FINGERPRINT_OF: Final = b"\0fingerprint of the secret"  # no name holds a NUL, so it equals no pseudonym
_CATALOG_TABLE: Final = "secret"
_CATALOG_KEY: Final = "fingerprint"
IDENTIFIERS: Final = ("conversation_id", "source")
"""Columns that hold names of files and conversations."""


def load_secret(path: Path, tables: Tables) -> bytes:
    """Read the secret of a workspace, and create it in the first run, the same for processes that do so together.

    It raises ``WorkspaceError`` if the file is no secret, or the tables hold pseudonyms of another or a lost one, which
    the fingerprint in the catalog shows.
    """
    recorded = read_fingerprint(tables)
    remedy = (
        f"the tables hold pseudonyms of the former secret. Restore {path.name} from a backup or another worker. To "
        f"give everyone another pseudonym instead, remove everything in {tables.store.locate('')} except cache.sqlite, "
        "and run `backstory run`: it then rebuilds every table"
    )
    if not path.is_file():
        if recorded:
            raise WorkspaceError(f"{path} is lost, but {remedy}", code="lost_secret")
        with exclusive_temporary(path) as file:
            if not path.exists():  # another process may have been first
                os.fchmod(file.fileno(), 0o600)
                file.write(f"{secrets.token_hex(_SECRET_BYTES)}\n".encode())
                file.flush()
                publish(temporary_path(path), path)
    secret = parse_key(path.read_text(encoding="ascii", errors="replace"))
    if secret is None:
        raise WorkspaceError(
            f"{path} is not a secret of {2 * _SECRET_BYTES} hexadecimal digits; restore it from a backup",
            code="no_secret",
        )
    if path.stat().st_mode & 0o077:
        _logger.warning("%s is readable by other users; run `chmod 600 %s`", path, path)
    fingerprint = fingerprint_key(secret)
    if not recorded:
        tables.catalog.record(_CATALOG_TABLE, {_CATALOG_KEY: Entry("", fingerprint, 0)})
    elif not hmac.compare_digest(recorded, fingerprint):
        raise WorkspaceError(f"{path} is not the secret of the last run, but {remedy}", code="other_secret")
    return secret


def is_unmade(path: Path, tables: Tables) -> bool:
    """Check whether the next run makes the secret: there is no file, and nothing shows that there ever was one."""
    return not path.is_file() and not read_fingerprint(tables)


def read_fingerprint(tables: Tables) -> str:
    """Return the fingerprint of the secret that the tables were made with; empty before the first run."""
    recorded = tables.catalog.read(_CATALOG_TABLE).get(_CATALOG_KEY)
    return "" if recorded is None else recorded.content


def fingerprint_key(key: bytes) -> str:
    """Return a text by which a key is known again, and from which it cannot be computed."""
    return hmac.digest(key, _FINGERPRINT_OF, hashlib.sha256).hex()[:16]


def parse_key(text: str) -> bytes | None:
    """Return the 32 bytes that 64 hexadecimal digits stand for; None for any other text."""
    is_key = re.fullmatch(f"[0-9a-fA-F]{{{2 * _SECRET_BYTES}}}", text.strip())
    return bytes.fromhex(is_key[0]) if is_key else None


def make_pseudonym(person: str, secret: bytes) -> str:
    """Make a person's pseudonym: ``member-`` and the first ten hexadecimal digits of HMAC-SHA256 (RFC 2104)."""
    return PSEUDONYM_PREFIX + hmac.digest(secret, person.encode(), hashlib.sha256).hex()[:10]


def make_finder(messages: pl.DataFrame, aliases: Mapping[str, str], other_names: Iterable[str]) -> NameFinder:
    """Return the finder of the people of some exports, under whatever name an export writes them.

    ``messages``: messages with ``author``, ``text`` and ``kind``.
    """
    app_texts = messages.filter(kind="system")["text"].drop_nulls().unique()
    names = [*messages["author"].drop_nulls().unique(), *aliases, *other_names]
    return NameFinder(names, find_members(app_texts), aliases)


def pseudonymize_messages(
    frame: pl.DataFrame,
    secret: bytes,
    aliases: Mapping[str, str] | None = None,
    other_names: Iterable[str] = (),
) -> pl.DataFrame:
    """Replace names by pseudonyms: authors, mentions, and names in texts, conversations and sources.

    Names are those of all authors of the frame, so pass all conversations together. In lines of the app, names of
    members who never wrote are replaced if the line says what they did.

    ``frame``: messages with ``author``, ``text``, ``kind``, ``conversation_id`` and ``source``; also ``reactions`` if
    the messages have any.
    """
    finder = make_finder(frame, aliases or {}, other_names)
    write = partial(make_pseudonym, secret=secret)
    by_name = {name: write(finder.person(name)) for name in frame["author"].drop_nulls().unique()}
    author = pl.col("author").replace_strict(by_name, default=None, return_dtype=pl.String)
    by_app, texts = (frame["kind"] == "system").fill_null(value=False), frame["text"]
    in_messages = finder.replace(texts.set(by_app, None), "message", write)
    in_app_lines = finder.replace(texts.set(~by_app, None), "app line", write)
    written = frame.with_columns(author, in_app_lines.zip_with(by_app, in_messages))
    if "reactions" in frame.columns:  # custom emoji may be named after somebody
        emoji, element = list_emoji(frame), pl.element().struct
        shown = element.field("emoji").replace(emoji, finder.replace(emoji, "identifier", write))
        hidden = pl.col("reactions").list.eval(pl.struct(shown, element.field("count")))
        written = written.with_columns(hidden)
    # Two merged exports are one conversation, but each keeps its own file name.
    return replace_in_identifiers(written, finder, secret)


def list_emoji(frame: pl.DataFrame) -> pl.Series:
    """Return the different emoji among the reactions of messages."""
    reactions = frame["reactions"].explode().drop_nulls()
    return reactions.struct.field("emoji").drop_nulls().unique().sort()


def replace_in_identifiers(frame: pl.DataFrame, finder: NameFinder, secret: bytes) -> pl.DataFrame:
    """Replace names in the conversations and sources of a table that has any."""
    for column in set(IDENTIFIERS).intersection(frame.columns):
        values = frame[column].drop_nulls().unique()
        written = finder.replace(values, "identifier", partial(make_pseudonym, secret=secret))
        frame = frame.with_columns(pl.col(column).replace(values, written))
    return frame


_VERBS: Final = r"""
added … | removed … | left | was added | was removed | is now an admin | pinned a message | joined using *
turned o(?:n|ff) * | created group* | created this group* | changed t(?:he|his|heir|o) * | wurde hinzugefügt
wurde entfernt | hat … hinzugefügt | hat … entfernt | hat die Gruppe * | hat den * geändert | ist * beigetreten
adicionou … | removeu … | saiu | criou (?:este|o) grupo* | mudou * | alterou * | entrou usando * | añadió a …
agregó a … | eliminó a … | salió | fue añadid[ao] | creó (?:este|el) grupo* | cambió * | se unió * | a ajouté …
a retiré … | a supprimé … | est partie? | a été ajoutée? | a quitté * | a créé * | a changé * | a rejoint *
ha aggiunto … | ha rimosso … | ha abbandonato* | è stat[ao] aggiunt[ao] | ha creato * | ha cambiato *
"""
"""What the app writes after the name of a person; `…` stands for further names, `*` for any text."""
_PHRASES: Final = "|".join(re.split(r" \| |\n", _VERBS.strip()))
_LINE: Final = re.compile(f"(.+?) (?:{_PHRASES.replace('*', '.*').replace('…', '(.+)')})")
_READ_OF_LINE: Final = 2_000
"""Characters of a line; on a long one, a pattern with two open parts takes quadratic time."""
_BETWEEN_NAMES: Final = re.compile(r",\s+|\s(?:and|und|e|y|et)\s")
_NO_NAME: Final = re.compile("(you|your|du|dich|sie|você|tú|tu|te|ti|vous|hai|someone|admin)?", re.IGNORECASE)
_OF_NOBODY: Final = re.compile("(this|the|your|diese|die|este|esta|ce|questo|an) ", re.IGNORECASE)


def find_members(app_lines: Iterable[str]) -> list[str]:
    """Find names of people in the lines that the app writes into a group."""
    members = set[str]()
    for text in app_lines:
        line = text.strip().partition("\n")[0].removesuffix(".")
        match = _LINE.fullmatch(line[:_READ_OF_LINE])
        if match and not _OF_NOBODY.match(line):
            person, *others = filter(None, match.groups())
            names = [person, *(name for other in others for name in _BETWEEN_NAMES.split(other))]
            members.update(name.strip() for name in names if not _NO_NAME.fullmatch(name.strip()))
    return sorted(members)


@lru_cache(maxsize=4)  # a run searches each table for the same names
def _make_finder(names: tuple[str, ...]) -> NameFinder:
    return NameFinder(names)


def find_naming_texts(
    texts: Iterable[str], names: Iterable[str], agreed: Collection[str] = (), place: Place = "message"
) -> set[str]:
    """Return those of the texts that hold a real name, but one that its person has ``agreed`` to."""
    finder, allowed = _make_finder(tuple(names)), set(map(fold, agreed))
    distinct = pl.Series("text", texts, pl.String).unique()
    # Pseudonyms are removed first, because their letters could be somebody's name.
    bare = distinct.str.replace_all(PSEUDONYM, BLANK)
    found = [
        any(fold(text[name.start : name.end]) not in allowed for name in names_in_text)
        for text, names_in_text in zip(bare, finder.find_in(bare, place), strict=True)
    ]
    words = [name for name in finder.full_names if fold(name) not in allowed]
    return set(distinct.filter(pl.Series(found, dtype=pl.Boolean) | _hold_words(bare, words)).drop_nulls())


def find_real_names(messages: pl.DataFrame, names: Iterable[str]) -> pl.DataFrame:
    """Find names that pseudonymization missed.

    ``messages``: a table with any of ``author``, ``text``, ``reactions``, ``conversation_id`` and ``source``. Texts
    whose ``kind`` is ``system`` are searched as lines of the app. It returns one row per cell that holds a name:
    ``column``, and ``message_id``, null if the table has none. The name itself is not included.
    """
    names = tuple(names)
    usual = {"message_id": pl.lit(None, pl.String), "kind": pl.lit("message")}
    table = messages.with_columns(usual[name].alias(name) for name in usual if name not in messages.columns)
    by_app = (pl.col("kind") == "system").fill_null(value=False)
    # An author that is no pseudonym is a name, also one that is not in ``names``.
    breaches = [("author", ~pl.col("author").str.contains(f"^{PSEUDONYM}$"))]
    searched: list[tuple[str, Place, pl.Expr]] = [("text", "app line", by_app), ("text", "message", ~by_app)]
    searched += [(column, "identifier", pl.lit(value=True)) for column in ("reactions", *IDENTIFIERS)]
    for column, place, is_meant in searched:
        if column in table.columns:
            cells, rows = pl.col(column), table.filter(is_meant)
            texts = list_emoji(rows) if column == "reactions" else rows[column]
            held = list(find_naming_texts(texts, names, place=place))
            is_held = cells.list.eval(pl.element().struct.field("emoji").is_in(held)).list.any()
            breaches.append((column, is_meant & (is_held if column == "reactions" else cells.is_in(held))))
    found = [
        table.filter(is_named).select(pl.lit(column).alias("column"), "message_id")
        for column, is_named in breaches
        if column in table.columns
    ]
    return pl.concat([pl.DataFrame(schema={"column": pl.String, "message_id": pl.String}), *found])


def _hold_words(texts: pl.Series, names: Iterable[str]) -> pl.Series:
    """Return for each text whether it holds the words of a full name, by no code that the replacement has."""
    spelled = _spell_plainly(pl.Series(names, dtype=pl.String))
    words = [name for name in spelled if " " in name.strip()]
    last = {unicodedata.normalize(form, name.split()[-1]) for name in words for form in ("NFC", "NFD")}
    likely = texts.filter(texts.str.to_lowercase().str.contains_any([NOTHING, *last]))
    return texts.is_in(likely.filter(_spell_plainly(likely).str.contains_any([NOTHING, *words])).implode())


def _spell_plainly(texts: pl.Series) -> pl.Series:
    """Return the words of texts, with emoji and ``@``, in small letters, with one space before, between and after."""
    small = texts.str.normalize("NFC").str.to_lowercase().str.replace_all(r"\p{Cf}", "")
    return " " + small.str.replace_all(r"[^\p{L}\p{M}\p{N}\p{So}@]+", " ").str.strip_chars() + " "


DEFAULT_LANGUAGE: Final = "en"
"""Language of the words for a conversation whose language is not known, or has no list."""

_LEAST_SHARED_LETTERS: Final = 4
"""Fewest letters of a word or a part of a name that make it resemble a longer one which holds it."""
_PARTS: Final = regex.compile(r"[\p{L}\p{M}\p{N}]+")


@cache
def load_words() -> Mapping[str, tuple[str, ...]]:
    """Read the words by the ISO 639-1 code of their language."""
    shipped = files("backstory.ingest.privacy").joinpath("shown_words.json").read_text(encoding="utf-8")
    return {language: tuple(words.split()) for language, words in json.loads(shipped).items()}


def list_usable_words(language: str, names: Iterable[str]) -> list[str]:
    """List the words of a language that nobody can take for one of the names.

    It returns the words in their order, without those that are found as a name, and without those that equal a part of
    a name, differ from it in one letter, or hold it or are held by it.
    """
    from rapidfuzz.distance import Indel  # a search needs no words
    from rapidfuzz.process import cdist

    names = list(names)
    words = load_words().get(language, load_words()[DEFAULT_LANGUAGE])
    parts = sorted({letters for name in names for part in _PARTS.findall(name) if (letters := fold(part))})
    changes = cdist(list(map(fold, words)), parts, scorer=Indel.distance, score_cutoff=2)
    # A name may also be written in other forms, such as with another spelling of an umlaut.
    found = find_naming_texts([text for word in words for text in (word, f"@{word}")], names)
    return [
        word
        for word, letters in zip(words, changes, strict=True)
        if found.isdisjoint((word, f"@{word}"))
        and not any(map(_resemble, repeat(fold(word)), parts, letters.tolist()))
    ]


def _resemble(word: str, part: str, changes: int) -> bool:
    """Return whether a word may be taken for a part of a name, or the reverse, from which some changes lead to it."""
    shorter, longer = sorted((word, part), key=len)
    is_long = len(longer) >= _LEAST_SHARED_LETTERS
    differs_in_one = is_long and changes <= 2 and len(longer) - len(shorter) <= 1
    is_held = shorter in longer and (len(shorter) >= _LEAST_SHARED_LETTERS or is_unspaced(shorter))
    return word == part or differs_in_one or is_held


def assign_names(
    people: Sequence[str], words: Sequence[str], agreed: Mapping[str, str], taken: Iterable[str] = ()
) -> dict[str, str]:
    """Give each person of a conversation a name of its own.

    It returns a name by pseudonym: the chosen one, a word, or a word with a number after all words are taken. Without
    words, only the chosen ones.
    """
    names = {person: agreed[person] for person in people if person in agreed}
    used = {*taken, *names.values()}
    for person in people:
        if person in names or not words:
            continue
        preferred = sorted(words, key=lambda word: digest([person, word]))
        name = next(name for name in _list_candidates(person, preferred) if name not in used)
        names[person] = name
        used.add(name)
    return names


def _list_candidates(person: str, preferred: Sequence[str]) -> Iterable[str]:
    yield from preferred
    for attempt in count():
        number = 2 + int(digest([person, str(attempt)], length=8), 16) % (98 * (1 + attempt // 8))
        yield f"{preferred[attempt % len(preferred)]} {number}"
