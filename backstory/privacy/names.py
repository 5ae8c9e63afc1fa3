"""Names of people in chats: when two are the same, and where a text holds one.

A name of several words is found anywhere in a text. A name of one word, and the first word of a longer one,
is found only in a mention (``@Anna``), since such a word is often just a word; in the lines that the app
itself writes, and in the names of files and conversations, every whole name is found.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable
from functools import cached_property
from typing import Final

import polars as pl

_MARKS = "\u200b\u200e\u200f\u061c\u202a-\u202e\u2060\u2066-\u2069\ufeff"
_MARK: Final = re.compile(f"[{_MARKS}]")
_PHONE: Final = re.compile(r"\+?[\d\s().\-\u2010\u2011]{7,}")
_PHONE_GAP = r"[\s().\-\u2010\u2011/]{0,3}"
_LEAST_PHONE_DIGITS = 7

_NOTHING = r"(?!)"
_ISOLATED_MENTION = "@\u2068[^\u2069\n]{1,100}\u2069"
_NUMBER_MENTION = r"@\+?\d{7,15}(?!\d)"
_ANY_PHONE = rf"\+\d(?:{_PHONE_GAP}\d){{6,14}}(?!\d)"


def normalize_name(name: str) -> str:
    """Bring a name into the form in which every export writes it alike.

    Args:
        name: As an export of any platform writes it.

    Returns:
        The name composed (NFC), in folded case, with single spaces, without direction marks and without the
        tilde before an unsaved contact; of a phone number, a plus sign and its digits.
    """
    return unicodedata.normalize("NFC", _plain_name(name).casefold())


class NameFinder:
    """Finds people's names in texts.

    Args:
        names: Names as exports write them.
        members: Further names, which are found only in mentions and in lines of the app.
    """

    def __init__(self, names: Iterable[str], members: Iterable[str] = ()) -> None:
        self._people: dict[str, str] = {}
        self._names: set[str] = set()
        for name in sorted(names):
            self._add(name)
        self._members = set(filter(None, map(_plain_name, members))) - self._names

    def person(self, written: str) -> str:
        """Say whose name was found.

        Args:
            written: An author, or what a pattern of this object found.

        Returns:
            The person's normalized name.
        """
        name = normalize_name(written.removeprefix("@"))
        return self._people.get(name) or self._first_names.get(name) or name

    @cached_property
    def in_message(self) -> re.Pattern[str]:
        """Names in what people write: mentions, names of several words, and known phone numbers."""
        spoken = [name for name in self._names if " " in name or _is_phone(name)]
        mentioned = {*self._names, *self._members, *self._first_names}
        return _compile(_ISOLATED_MENTION, _mention(mentioned), _NUMBER_MENTION, _any_of(spoken))

    @cached_property
    def in_app_line(self) -> re.Pattern[str]:
        """Names in what the app writes: also those of one word, in their own case, and any phone number."""
        whole = _any_of({*self._names, *self._members})
        return _compile(self.in_message.pattern, f"(?-i:{whole})" if whole else "", _ANY_PHONE)

    @cached_property
    def in_identifier(self) -> re.Pattern[str]:
        """Names in the names of files and conversations, where an underscore parts words."""
        return _compile(_any_of(self._names, word=r"[^\W_]"))

    def may_be_named(self, text: str = "text") -> pl.Expr:
        """Select quickly the texts in which :attr:`in_message` can find something.

        Args:
            text: The column of texts.
        """
        candidates = pl.col(text).str.contains("@", literal=True)
        longest_words = sorted({max(name.split(" "), key=len).lower() for name in self._names if " " in name})
        if longest_words:
            forms = [unicodedata.normalize(form, word) for word in longest_words for form in ("NFC", "NFD")]
            candidates |= pl.col(text).str.to_lowercase().str.contains_any(forms)
        if any(map(_is_phone, self._names)):
            candidates |= pl.col(text).str.contains(r"\d(?:[\s().\-\x{2010}\x{2011}/]{0,3}\d){6}")
        return candidates.fill_null(value=False)

    @cached_property
    def _first_names(self) -> dict[str, str]:
        """People by the first word of their name; by that word itself where several share it."""
        longer = sorted(person for person in set(self._people.values()) if " " in person)
        firsts = Counter(person.split(" ")[0] for person in longer)
        people = {person.split(" ")[0]: person for person in longer}
        return {
            first: person if firsts[first] == 1 else first
            for first, person in people.items()
            if first.isalpha() and len(first) > 1
        }

    def _add(self, written: str) -> None:
        name = _plain_name(written)
        if not name:
            return
        person = normalize_name(written)
        self._names.add(name)
        self._people[person] = person
        words = [word for word in name.split(" ") if any(map(str.isalnum, word))]
        if 1 < len(words) < len(name.split(" ")):  # a name with an emoji is also known without it
            self._names.add(" ".join(words))
            self._people.setdefault(normalize_name(" ".join(words)), person)


def replace_names(texts: Iterable[str], pattern: re.Pattern[str], replace: Callable[[str], str]) -> list[str]:
    """Replace every name found in texts.

    Args:
        texts: Any texts.
        pattern: One of a :class:`NameFinder`.
        replace: Gives what to write for a name as found, without the ``@`` of a mention.

    Returns:
        The texts, in order.
    """

    def write(match: re.Match[str]) -> str:
        found = match.group()
        return f"@{replace(found[1:])}" if found.startswith("@") else replace(found)

    return [pattern.sub(write, text) for text in texts]


def _plain_name(name: str) -> str:
    plain = unicodedata.normalize("NFC", _MARK.sub("", name)).strip().removeprefix("~").strip()
    digits = "".join(character for character in plain if character.isdigit())
    if len(digits) >= _LEAST_PHONE_DIGITS and _PHONE.fullmatch(plain):
        return f"+{digits if plain.startswith('+') else digits.removeprefix('00')}"
    return " ".join(plain.split())


def _is_phone(name: str) -> bool:
    return name.startswith("+") and name[1:].isdigit()


def _compile(*patterns: str) -> re.Pattern[str]:
    return re.compile("|".join(filter(None, patterns)) or _NOTHING, re.IGNORECASE)


def _mention(names: Iterable[str]) -> str:
    pattern = _any_of(names)
    return f"@[{_MARKS}]*(?:~\\s*)?{pattern}" if pattern else ""


def _any_of(names: Iterable[str], *, word: str = r"\w") -> str:
    """Write a pattern of whole names, the longest first, not inside a longer word."""
    ordered = sorted(names, key=lambda name: (-len(name), name))
    return "(?:" + "|".join(_whole(name, word) for name in ordered) + ")" if ordered else ""


def _whole(name: str, word: str) -> str:
    if _is_phone(name):
        return r"(?<!\d)(?:\+|00)?" + _PHONE_GAP.join(name[1:]) + r"(?!\d)"
    forms = {unicodedata.normalize(form, name) for form in ("NFC", "NFD")}
    written = "|".join(r"\s+".join(map(re.escape, form.split(" "))) for form in sorted(forms))
    left = f"(?<!{word})" if re.match(r"\w", name) else ""
    right = f"(?!{word})" if re.search(r"\w$", name) else ""
    return f"{left}(?:{written}){right}"
