"""What is read of a file: its text, and what it states of itself in front matter, dates and properties.

Front matter is YAML (between ``---``), TOML (between ``+++``) or JSON (``{`` to ``}``) before a text. The names of its
fields are those of different tools: Jekyll, Hugo, Obsidian, Astro and others. Lookup by name ignores case, spaces,
hyphens and underscores.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections import defaultdict
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from datetime import MAXYEAR, MINYEAR, UTC, datetime
from typing import Any, Final
from xml.etree.ElementTree import Element

from backstory.base.errors import ReadError
from backstory.base.local_times import put_in_zone
from backstory.settings.inputs import ChunkerName
from backstory.text.encoding import find_encoding


@dataclass(frozen=True)
class ParsedDocument:
    r"""One document; a value that its content does not state is None.

    ``text``: the body, newlines as ``\n``, never blank unless it is a draft. ``published_at``: without a zone if it
    states none. ``change``: by when it was written, where it states no date of publication. ``conversation``: that of a
    written post; empty for a post that does not state it. ``page_starts``: the character of ``text`` at which each
    page, slide or sheet begins, the first at 0. ``chunker``: how the text is cut; the first line of each page cut by
    ``rows`` is its header. ``confidences``: for each page, the confidence (0 to 1) with which its text was recognised
    in an image, None for a page that held text; empty if no page was recognised. ``unread``: what of the file was not
    read, and what to do. ``pictures``: the pages, from 1, whose text is in an image, until it is recognised.
    """

    text: str
    title: str | None = None
    slug: str | None = None
    published_at: datetime | None = None
    change: datetime | None = None
    tags: tuple[str, ...] = ()
    kind: str | None = None
    tenant: str | None = None
    conversation: str | None = None
    page_starts: tuple[int, ...] = ()
    chunker: ChunkerName = "markdown"
    confidences: tuple[float | None, ...] = ()
    unread: str | None = None
    is_draft: bool = False
    pictures: tuple[int, ...] = ()


@dataclass(frozen=True)
class DocumentFormat:
    """The reader of one type of file, by the endings of its name, in small letters and with the dot.

    ``name`` is what the table ``sources`` gives, ``title`` what people call it. ``read`` reads the content of a file
    with a path; equal arguments always give an equal document. It raises ``ReadError``, with the code
    ``empty_document`` if the file holds no text; the message does not name the file. ``find_encoding`` is None for a
    binary type. ``gives_markdown``: whether the text is Markdown; other texts may hold marks that mean nothing.
    """

    name: str
    title: str
    suffixes: frozenset[str]
    read: Callable[[bytes, str], ParsedDocument]
    find_encoding: Callable[[bytes], str] | None = find_encoding
    gives_markdown: bool = False


_MONTHS: Final = (
    "january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november",
    "december",
)  # fmt: skip
_WEEKDAY: Final = r"(?:(?i:mon|tues?|wed(?:nes)?|thu(?:rs)?|fri|sat(?:ur)?|sun)(?i:day)?\.?,? )?"
_DAY: Final = r"(?P<day>[0-9]{1,2})(?:st|nd|rd|th)?"
_MONTH: Final = r"(?P<month>[A-Za-z]{3,9})\.?"
_YEAR: Final = r"(?P<year>[0-9]{4})"
_FORMS: Final = tuple(
    re.compile(f"{form}(?P<time>.+))?")
    for form in (
        rf"{_YEAR}([-/.])(?P<month>[0-9]{{1,2}})\2(?P<day>[0-9]{{1,2}})(?:(?:[Tt]|,? )",
        rf"{_YEAR}(?P<month>[0-9]{{2}})(?P<day>[0-9]{{2}})(?:[Tt]?",
        rf"{_WEEKDAY}{_DAY}[ -](?:of )?{_MONTH},?[ -]{_YEAR}(?:,? (?:at )?",
        rf"{_WEEKDAY}{_MONTH} {_DAY},? {_YEAR}(?:,? (?:at )?",
    )
)
_TIME: Final = re.compile(
    r"([0-9]{2}|[0-9](?=:)):?([0-9]{2})(?::?([0-9]{2})(\.[0-9]+)?)?(?: *([AaPp])\.?[Mm]\b\.?)?"
    r"(?: *([Zz]|UTC|GMT|(?:UTC|GMT)?([+-])([0-9]{1,2}):?([0-9]{2})?))?(?: \([A-Za-z ]+\))?"
)


def parse_date(text: str) -> datetime:
    """Read a date, or a date and time: in UTC, or without a zone if the text states none.

    The supported forms are those of YAML, TOML and ISO 8601 (``2025-03-04T10:00:00Z``, ``20250304``), a year in front
    of slashes or dots (``2025/03/04``), and English month names in either order (``4 March 2025``, ``Tue, 04 Mar 2025
    10:00:00 +0000``). Any other raises ``ValueError``: in ``04/03/2025``, either number could be the month.
    """
    written = " ".join(text.split()).removeprefix("[[").removesuffix("]]")
    day = next((found for form in _FORMS if (found := form.fullmatch(written))), None)
    time = _TIME.fullmatch(day["time"] or "00:00") if day is not None else None
    if day is None or time is None:
        raise ValueError(f"{text!r} is not a date in a form that Backstory reads")
    named = (month for month, name in enumerate(_MONTHS, 1) if name.startswith(day["month"].lower()))
    month = int(day["month"]) if day["month"].isdigit() else next(named, 0)
    hour, minute, second, fraction, half, zone, sign, hours, minutes = time.groups("")
    if half:
        hour = f"{int(hour) % 12 + 12 * (half in 'Pp')}" if 1 <= int(hour) <= 12 else "99"
    moment = datetime.fromisoformat(
        f"{day['year']}-{month:02}-{day['day']:0>2}T{hour:0>2}:{minute}:{second or '00'}{fraction}"
        + (f"{sign or '+'}{hours:0>2}:{minutes:0>2}" if zone else "")
    )
    if not MINYEAR < moment.year < MAXYEAR:
        raise ValueError(f"{text!r} is outside the calendar in some zones")
    return moment.astimezone(UTC) if zone else moment


def find_last_change(created: datetime | None, changed: datetime | None) -> datetime | None:
    """Return the later of two dates of a file: by then, all that it holds was written."""
    dates = filter(None, (changed, created))
    return max(dates, key=lambda date: put_in_zone(date, "UTC"), default=None)


_MOST_CHARACTERS: Final = 1 << 15
"""Maximum length of front matter, which takes far longer to parse than text."""
PUBLICATION_FIELDS: Final = (
    "publishDate", "pubDate", "publishedAt", "publishedOn", "publishedDate", "datePublished",
)  # fmt: skip
CREATION_FIELDS: Final = (
    "date", "created", "createdAt", "createdOn", "createdDate", "dateCreated", "creationDate",
)  # fmt: skip
UPDATE_FIELDS: Final = (
    "updated", "updatedAt", "updatedOn", "updatedDate", "dateUpdated", "lastmod", "lastModified", "lastModifiedAt",
    "lastUpdated", "modified", "modifiedAt", "modifiedDate", "dateModified",
)  # fmt: skip
_YES: Final = frozenset(("true", "yes", "on", "y", "1"))
_NO: Final = frozenset(("false", "no", "off", "n", "0"))
_DRAFT_WORDS: Final = {
    "draft": _YES, "isDraft": _YES, "published": _NO, "publish": _NO, "status": frozenset(("draft", "unpublished")),
}  # fmt: skip
"""What makes a draft, by field."""
_LETTERS_ONLY: Final = re.compile(r"[\s_-]")
_NULL: Final = "tag:yaml.org,2002:null"
_ENDS: Final = {
    "---": ("YAML", re.compile(r"^(?:---|\.\.\.)[ \t]*$", re.MULTILINE)),
    "+++": ("TOML", re.compile(r"^\+\+\+[ \t]*$", re.MULTILINE)),
}
"""The languages of front matter, and the lines that end it, by the line that begins it."""
_YAML_FIELD: Final = re.compile(r"[\w.-]+[ \t]*:(?:\s|$)")
_JSON_START: Final = re.compile(r'\{\s*"|\{[ \t]*\n\s*\}')


class Fields:
    """The fields of a file by name; of two names that differ only in spelling, the first.

    A field that holds something else than is asked for raises ``ReadError``.
    """

    def __init__(self, fields: Iterable[tuple[str, Any]] = ()) -> None:
        self._fields: dict[str, Any] = {}
        for name, value in fields:
            self._fields.setdefault(_plain_name(str(name)), value)

    def text(self, name: str) -> str | None:
        """Return a field as one line; None if the field is absent or blank."""
        texts = self._list(name)
        if len(texts) > 1:
            raise ReadError(f"the field {name} must be one text, and not a list", code="invalid_field")
        return texts[0] if texts else None

    def date(self, *names: str) -> datetime | None:
        """Return the date of the first field that is present and not blank; None if there is none."""
        for name in names:
            if (text := self.text(name)) is not None:
                try:
                    return parse_date(text)
                except ValueError as error:
                    problem = (
                        f"the field {name} is not a date; write it as 2025-03-04 or 2025-03-04T10:00:00+02:00"
                    )
                    raise ReadError(problem, code="invalid_field") from error
        return None

    def find_dates(self) -> tuple[datetime | None, datetime | None]:
        """Return the stated date of publication, else of creation; without either, in its place that of a change.

        Publication precedes ``date``, which in Hugo is the day of writing if a post is published later. ``published``
        counts if it contains a date: in Jekyll it is true or false, in notes on books a year.
        """
        stated = self.date(*PUBLICATION_FIELDS)
        if stated is None:
            with suppress(ValueError):
                stated = parse_date(self.text("published") or "")
        stated = stated or self.date(*CREATION_FIELDS)
        return stated, None if stated else self.date(*UPDATE_FIELDS)

    def is_draft(self) -> bool:
        """Return whether the document is a draft: ``draft: true``, ``published: false``, ``status: draft`` and such."""
        for name, words in _DRAFT_WORDS.items():
            try:
                word = (self.text(name) or "").lower()
            except ReadError:
                word = "[...]"  # of other tools, whose fields may hold anything
            if word in words:
                return True
            if words is _YES and word and word not in _NO:
                raise ReadError(f"the field {name} must be true or false", code="invalid_field")
        return False

    def list_tags(self) -> tuple[str, ...]:
        """List the tags, each once: a list, or a text with commas, else with spaces between them.

        The ``#`` of Obsidian is left out; a nested tag such as ``house/garden`` is one tag.
        """
        name = "tags" if self._list("tags") else "tag"
        tags = self._list(name)
        if not isinstance(self._fields.get(name), list):
            tags = [tag for text in tags for tag in text.split("," if "," in text else None)]
        return tuple(dict.fromkeys(filter(None, (tag.strip().removeprefix("#").strip() for tag in tags))))

    def _list(self, name: str) -> list[str]:
        """List the texts of a field, each on one line, with � for half a surrogate pair, which no file can hold."""
        value = self._fields.get(_plain_name(name))
        items = value if isinstance(value, list) else [value]
        if any(isinstance(item, list | dict) for item in items):
            raise ReadError(f"the field {name} must be a text, or a list of texts", code="invalid_field")
        encoded = (str(item).encode("utf-16", "surrogatepass") for item in items if item is not None)
        return list(filter(None, (" ".join(text.decode("utf-16", "replace").split()) for text in encoded)))


def split_front_matter(text: str) -> tuple[Fields, str]:
    r"""Split the front matter from a text.

    As in Pandoc, a first line ``---`` followed by a blank line is a thematic break. As in Hugo, a JSON object at the
    beginning of a text is front matter. ``text``: a whole file, newlines as ``\n``. It returns the fields and the text
    after them. It raises ``ReadError`` if the front matter is not closed, not valid, or too long.
    """
    if _JSON_START.match(text):
        values, place = _parse("JSON", text[: _MOST_CHARACTERS + 1])
        behind, _, body = text[place:].partition("\n")
        if behind.strip():
            raise ReadError("text follows the front matter; begin it on a line of its own")
        return Fields(values.items()), body
    first, _, rest = text.partition("\n")
    mark, following = first.rstrip(), rest.partition("\n")[0]
    if mark not in _ENDS or (mark == "---" and not following.strip()):
        return Fields(), text
    language, ending = _ENDS[mark]
    end = ending.search(rest)
    if end is None:
        if mark == "---" and not _YAML_FIELD.match(following):
            return Fields(), text
        raise ReadError(f"the front matter is not closed; add a line {mark} after it")
    block, body = rest[: end.start()], rest[end.end() :].removeprefix("\n")
    if len(block) > _MOST_CHARACTERS:
        raise ReadError(f"the front matter has more than {_MOST_CHARACTERS:,} characters; shorten it")
    return Fields(_parse(language, block).items()), body


def _parse(language: str, block: str) -> Any:
    """Parse front matter; what is wrong is said without a word of the file."""
    from ruamel.yaml import YAML  # takes longer to load than most documents take to read
    from ruamel.yaml.error import YAMLError

    try:
        if language == "JSON":
            return json.JSONDecoder().raw_decode(block)
        if language == "TOML":
            return tomllib.loads(block)
        yaml = YAML(typ="safe", pure=True)
        yaml.composer.warn_double_anchors = False
        root = yaml.compose(block)
        if root is None:
            return {}
        nodes = root.value if root.id == "mapping" else []
        fields = [(key.value, _read_node(value)) for key, value in nodes if key.id == "scalar"]
        if root.id != "mapping" or len(dict(fields)) < len(fields):
            raise ValueError("this is no mapping, or gives a field twice")
        return dict(fields)
    except RecursionError as error:
        problem = "the front matter is nested too deeply; make it flat"
        raise ReadError(problem, code="nested_too_deeply") from error
    except (YAMLError, ValueError, OverflowError) as error:
        mark = getattr(error, "problem_mark", None)
        line = f"line {mark.line + 2}: " if mark else ""
        raise ReadError(
            f"{line}the front matter is not valid {language}; write `title: Text`, give no field twice, "
            "close every quote and bracket, quote a text that holds a colon, or begin other text with a blank line",
            code=f"invalid_{language.lower()}",
        ) from error


def _read_node(node: Any) -> Any:
    """Read a text, or a list of texts, as they are written, so that a title 007 is kept.

    An empty dictionary is a mark of anything deeper, so that what aliases repeat is never built.
    """
    if node.id == "sequence":
        return [{} if item.id == "sequence" else _read_node(item) for item in node.value]
    if node.id != "scalar":
        return {}
    return None if node.tag == _NULL else node.value


def _plain_name(name: str) -> str:
    """Normalize a name, so that ``publish_date``, ``publishDate`` and ``Publish Date`` are equal."""
    return _LETTERS_ONLY.sub("", name).casefold()


_DEFAULT_YEARS: Final = 1981
"""Programs that set no date write 1970 or 1980, where their clocks begin."""
_MOST_OF_TITLE: Final = 300
_MARKS_OF_PDF: Final = re.compile(r"^D:|'|(?<=[Zz])00'?00'?$")
_PROGRAM: Final = re.compile(
    r"(?:microsoft (?:office )?)?(?:word|powerpoint|excel|publisher) - ", re.IGNORECASE
)
_NO_TITLE: Final = re.compile(
    r"(?:untitled(?: document| page)?|no title|title|none|null|unbenannt|sans titre|sin t[ií]tulo|senza titolo"
    r"|document|dokument|documento|\(?(?:anonymous|unspecified)\)?|unknown|unbekannt|new document|neues dokument"
    r"|presentation|präsentation|powerpoint presentation|slide|folie|scan|scanned document|print preview|layout"
    r")[ _-]*\d*"
    r"|\S.*\.(?:docx?|odt|rtf|pptx?|odp|xlsx?|ods|dvi|tex|indd|qxd|pages|pmd|fm|ps|pdf|html?|txt|md)",
    re.IGNORECASE,
)
_SEPARATORS: Final = re.compile(r"[,;\n]")
_EVENTS: Final = {"modification": "modified", "creation": "created"}


def read_title(stated: str | None) -> str | None:
    """Return the title of a document; None for the name of a file, a number, a paragraph, or ``untitled`` and such."""
    title = " ".join("".join(char if char.isprintable() else " " for char in stated or "").split())
    title = title[found.end() :] if (found := _PROGRAM.match(title)) else title
    is_title = any(map(str.isalpha, title)) and len(title) <= _MOST_OF_TITLE
    return title if is_title and _NO_TITLE.fullmatch(title) is None else None


def read_pdf_date(stated: str) -> datetime | None:
    """Return a date such as ``D:20240822125427+02'00'`` in UTC, or without a zone if it has none; None for others."""
    return _read_date(_MARKS_OF_PDF.sub("", stated.strip()))


def read_properties(root: Element) -> ParsedDocument:
    """Read the properties of a document of Microsoft Office, of an OpenDocument file or of an e-book, without its text.

    A publication, as of a book, is stated in place of a last change.
    """
    stated: defaultdict[str, list[str]] = defaultdict(list)
    for element in root.iter():
        name = element.get("property", element.tag).rpartition(":")[2]
        # Of a book it is its publication, unless EPUB 2 names another event; else the last change.
        if name == "date":
            event = read_attribute(element, "event")
            name = _EVENTS.get(event, "published") if root.tag == "metadata" else "modified"
        if text := " ".join((element.text or "").split()):
            stated[name].append(text)

    def find(*names: str) -> datetime | None:
        return next(filter(None, (_read_date(text) for name in names for text in stated[name])), None)

    published = find("published")
    change = find_last_change(find("created", "creation-date"), find("modified"))
    tags = (tag.strip() for text in stated["keywords"] + stated["keyword"] for tag in _SEPARATORS.split(text))
    return ParsedDocument(
        text="",
        title=read_title("".join(stated["title"][:1])),
        published_at=published,
        change=None if published else change,
        tags=tuple(dict.fromkeys(filter(None, tags))),
    )


def read_attribute(element: Element, name: str, default: str = "") -> str:
    """Return an attribute by its name without the namespace; of two such ones, that which has a namespace."""
    values = (value for key, value in element.attrib.items() if key.endswith(f"}}{name}"))
    return next(values, element.get(name, default))


def _read_date(text: str) -> datetime | None:
    with suppress(ValueError):  # the property was written by a program, and no one can mend it
        moment = parse_date(text)
        return moment if moment.year >= _DEFAULT_YEARS else None
    return None
