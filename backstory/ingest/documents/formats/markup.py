"""Markups whose headings are written line by line -> Markdown's headings and code; all other text stays as it is.

Everything that cuts, names or shows a part of a document reads Markdown. A converter changes lines only where Markdown
would find another structure than the markup: headings, code, comments, and lines that Markdown takes for a heading.
docutils and the like would read the whole languages. But they report the directives of Sphinx or Pelican as errors in
the text, they follow ``include``, and they write no Markdown.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final, TypeAlias

MOST_LEVELS: Final = 6
"""Levels of headings in Markdown; deeper ones are written on the last level."""
Marked: TypeAlias = "tuple[str, list[tuple[str, str | None]]]"
"""A body as Markdown, and the fields at the beginning of the file."""
_HEADING: Final = re.compile(r"^( {0,3})(#{1,6})(?=\s|$)")
_TICKS: Final = re.compile(r"`{3,}")


def write_heading(level: int, title: str) -> str:
    """Write a heading as a line of Markdown."""
    return f"{'#' * min(level, MOST_LEVELS)} {title}"


def keep_line(line: str) -> str:
    """Escape a line that Markdown would take for a heading; every other line stays as it is."""
    return _HEADING.sub(r"\1\\\2", line)


def fence_code(lines: Iterable[str], language: str = "") -> str:
    """Write lines as one block of fenced code, with a fence that none of them can end."""
    code = list(lines)
    longest = max((len(ticks) for line in code for ticks in _TICKS.findall(line)), default=2)
    fence = "`" * (longest + 1)
    return "\n".join([f"{fence}{language}", *code, fence])


def _join_blocks(blocks: Iterable[str]) -> str:
    """Join lines and blocks of code, with at most one blank line between two."""
    retained: list[str] = []
    for block in blocks:
        if block or (retained and retained[-1]):
            retained.append(block)
    return "\n".join(retained)


_ASCIIDOC_HEADING: Final = re.compile(r"(={1,6}|#{1,6})[ \t]+(\S.*)")
_ATTRIBUTE: Final = re.compile(r":([\w-]+):(?:[ \t]+(.*))?")
_BLOCK: Final = re.compile(r"-{4,}|\.{4,}|`{3,}|/{4,}")
_SOURCE: Final = re.compile(r"\[(?:source|,)(?:%\w+)?,? *([\w+-]*).*\]")
_AUTHOR: Final = re.compile(r"\w[\w.'’-]*(?: [\w.'’-]+){0,3}(?: <[^<>]+>)?(?:; .+)?")
_REVISION: Final = re.compile(
    r"(?:v?(?P<version>\d[\w.-]*),[ \t]*)?(?P<date>[^:{}]*\d{4}[^:{}]*)(?::[ \t]+.*)?|v\d[\w.-]*(?:[,:].*)?"
)
"""Line below that of the author: ``v2.0, 2026-02-10: remark``."""
_NAMES: Final = {"revdate": "date", "keywords": "tags", "filetags": "tags"}
_ORG_HEADING: Final = re.compile(r"(\*+)[ \t]+(.*?)(?:[ \t]+(?::[\w@#%:]+:))?[ \t]*")
_KEYWORD: Final = re.compile(r"#\+([A-Za-z_]+):[ \t]*(.*)")
_BEGIN: Final = re.compile(r"[ \t]*#\+begin_(src|example|comment)\b[ \t]*(\S*).*", re.IGNORECASE)
_DRAWER: Final = re.compile(r"[ \t]*:([\w-]+):[ \t]*")
_COMMENTED: Final = re.compile(r"(?:[A-Z]+ )?(?:\[#.\] )?COMMENT(?: .*)?")
_TIMESTAMP: Final = re.compile(
    r"[<\[]([0-9]{4}-[0-9]{2}-[0-9]{2})(?: +[^\W\d]+\.?)?(?: +([0-9]{1,2}:[0-9]{2})(?:-[0-9]{1,2}:[0-9]{2})?)?"
    r"(?: +[.+-]{1,2}[0-9]+[hdwmy])*[>\]]"
)


def convert_asciidoc(text: str) -> Marked:
    """Convert AsciiDoc; its fields are the attributes of its header (``:revdate: 2024-05-01``)."""
    lines = [line.rstrip() for line in text.split("\n")]
    out: list[str] = []
    fields: list[tuple[str, str | None]] = []
    language, is_header = "", True
    at = 0
    while at < len(lines):
        line = lines[at]
        at += 1
        attribute = _ATTRIBUTE.fullmatch(line) if is_header else None
        heading, source = _ASCIIDOC_HEADING.fullmatch(line), _SOURCE.fullmatch(line)
        if attribute is not None:
            if "{" not in (attribute[2] or ""):
                fields.append((_NAMES.get(attribute[1], attribute[1]), attribute[2] or None))
        elif _BLOCK.fullmatch(line):
            end = _find_line(lines, at, line)
            if not line.startswith("/"):
                out += ["", fence_code(lines[at:end], language), ""]
            language, at, is_header = "", end + 1, False
        elif source is not None:
            language = source[1]
        elif heading is not None:
            out += ["", write_heading(len(heading[1]), heading[2]), ""]
            is_header = is_header and len(heading[1]) == 1
        elif not line.startswith("//"):
            out.append(keep_line(line))
            is_author = is_header and at < len(lines) and _is_author(lines, at - 1)
            if is_author and (revision := _REVISION.fullmatch(lines[at].strip())) is not None:
                fields += [("date", revision["date"].strip())] if revision["date"] else []
                at += 1
            is_header = is_header and not (line == "" and any(out))
    return _join_blocks(out), fields


def _find_line(lines: Sequence[str], at: int, wanted: str) -> int:
    """Return the place of the next line with a text, in any case, or the end."""
    return next((n for n in range(at, len(lines)) if lines[n].strip().lower() == wanted.lower()), len(lines))


def _is_author(lines: Sequence[str], number: int) -> bool:
    """Return whether a line is that of the author: below the title, without a blank line between."""
    above = [line for line in lines[:number] if not line.startswith(("//", ":"))]
    return bool(above) and above[-1].startswith(("= ", "# ")) and _AUTHOR.fullmatch(lines[number]) is not None


def convert_org_mode(text: str) -> Marked:
    """Convert Org mode; its fields are the keywords (``#+DATE: <2024-05-01 Wed>``). Drawers are not shown."""
    lines = [line.rstrip() for line in text.split("\n")]
    out: list[str] = []
    fields: list[tuple[str, str | None]] = []
    at = 0
    while at < len(lines):
        line = lines[at]
        at += 1
        keyword, begin = _KEYWORD.fullmatch(line), _BEGIN.fullmatch(line)
        heading = _ORG_HEADING.fullmatch(line)
        if keyword is not None:
            fields += _read_keyword(keyword[1].lower(), keyword[2])
        elif begin is not None:
            kind = begin[1].lower()
            end = _find_line(lines, at, f"#+end_{kind}")
            if kind != "comment":
                out += ["", fence_code(lines[at:end], begin[2] if kind == "src" else ""), ""]
            at = end + 1
        elif _DRAWER.fullmatch(line) and (end := _find_line(lines, at, ":end:")) < _find_heading(lines, at):
            at = end + 1
        elif heading is not None and _COMMENTED.fullmatch(heading[2]):
            at = _find_heading(lines, at, len(heading[1]))
        elif heading is not None:
            out += ["", write_heading(len(heading[1]), heading[2]), ""]
        elif not line.startswith("# ") and line != "#":
            out.append(keep_line(line))
    return _join_blocks(out), fields


def _find_heading(lines: Sequence[str], at: int, level: int = MOST_LEVELS * 10) -> int:
    """Return the place of the next heading that is not below one of a level, or the end."""
    headings = ((number, _ORG_HEADING.fullmatch(lines[number])) for number in range(at, len(lines)))
    return next((number for number, found in headings if found and len(found[1]) <= level), len(lines))


def _read_keyword(name: str, value: str) -> list[tuple[str, str | None]]:
    if _NAMES.get(name) == "tags":
        return [("tags", " ".join(value.replace(":", " ").split()) or None)]
    stamp = _TIMESTAMP.fullmatch(value.strip())
    if stamp is not None:
        value = " ".join(filter(None, stamp.groups()))
    return [] if value.startswith(("\\", "{")) else [(name, value or None)]


_ADORNMENT: Final = re.compile(r"([!-/:-@[-`{-~])\1{2,}")
_CODE: Final = re.compile(
    r"( *)\.\. (?:code-block|code|sourcecode|highlight|doctest|parsed-literal)::[ \t]*(\S*)[ \t]*"
)
_META: Final = re.compile(r"\.\. meta::[ \t]*")
_UNSEEN: Final = re.compile(r"\.\.(?: _.*:.*| (?!\[|\||_|[\w:+.-]+::).*)?")
"""A target or a comment; what is indented below a comment belongs to it."""
_FIELD: Final = re.compile(r":((?![\s:])(?:\\.|[^:\\])+):(?:[ \t]+(.*))?")
_NIKOLA: Final = re.compile(r"\.\. (\w+):(?:[ \t]+(.*))?")
_OPTION: Final = re.compile(r"\s+:[\w-]+:")
_STAMP: Final = re.compile(r"\$\w+(?:: *(.*?) *)?\$")


def convert_restructured_text(text: str) -> Marked:
    """Convert reStructuredText.

    Fields are those at the beginning or below the title (``:date: 2024-05-01``), comments at the beginning as Nikola
    writes them (``.. date: 2024-05-01``), and the keywords of ``.. meta::``.
    """
    return _RestructuredText(text.split("\n")).convert()


class _RestructuredText:
    """One pass over the lines of a text. Its headings are told by the lines around them, its blocks by indentation."""

    def __init__(self, lines: Sequence[str]) -> None:
        self.lines = lines
        self.at = 0
        self.out: list[str] = []
        self.fields: list[tuple[str, str | None]] = []
        self.styles: list[tuple[str, bool]] = []
        self.is_beginning = True

    def convert(self) -> Marked:
        while self.at < len(self.lines):
            if not self._line(self.at):
                self.out.append("")
                self.at += 1
            elif not (self._take_field() or self._take_heading() or self._take_code() or self._take_unseen()):
                self.is_beginning = False
                self._take_line()
        return _join_blocks(self.out), self.fields

    def _line(self, at: int) -> str:
        return self.lines[at].rstrip() if 0 <= at < len(self.lines) else ""

    def _take_field(self) -> bool:
        line = self._line(self.at)
        found = (_NIKOLA.fullmatch(line) or _FIELD.fullmatch(line)) if self.is_beginning else None
        if found is None:
            return False
        self.at += 1
        more = self._take_block(1) if self._line(self.at).startswith((" ", "\t")) else []
        value = " ".join(filter(None, (part.strip() for part in (found[2] or "", *more))))
        stamp = _STAMP.fullmatch(value)
        value = (stamp[1] or "") if stamp else value
        self.fields.append((found[1].strip(), value or None))
        return True

    def _take_heading(self) -> bool:
        above = _ADORNMENT.fullmatch(self._line(self.at))
        title_at = self.at + 1 if above else self.at
        title, below = self._line(title_at).strip(), self._line(title_at + 1)
        mark = _ADORNMENT.fullmatch(below)
        is_whole = mark is not None and title and (len(below) >= 4 or len(below) >= len(title))
        if not is_whole or mark is None or _ADORNMENT.fullmatch(title):
            return False
        if above is not None and above[0] != below:
            return False
        if above is None and (self._line(self.at)[0].isspace() or self._line(self.at - 1)):
            return False
        style = (mark[1], above is not None)
        if style not in self.styles:
            self.styles.append(style)
        self.out += ["", write_heading(self.styles.index(style) + 1, title), ""]
        self.at = title_at + 2
        self.is_beginning = self.is_beginning and len(self.styles) == 1
        return True

    def _take_code(self) -> bool:
        found = _CODE.fullmatch(self._line(self.at))
        if found is None:
            return False
        self.at += 1
        self._write_code(self._take_block(len(found[1]) + 1), found[2], has_options=True)
        return True

    def _take_unseen(self) -> bool:
        line = self._line(self.at)
        if _META.fullmatch(line):
            self.at += 1
            found = (_FIELD.fullmatch(text.strip()) for text in self._take_block(1))
            self.fields += [("tags", field[2]) for field in found if field and _is_keywords(field[1])]
            return True
        if _UNSEEN.fullmatch(line) is None:
            return False
        self.at += 1
        if not line.startswith(".. _") and (line != ".." or self._line(self.at)):
            self._take_block(1)
        return True

    def _take_line(self) -> None:
        line = self._line(self.at)
        self.out.append(keep_line(line))
        self.at += 1
        indent = len(line) - len(line.lstrip())
        if line.endswith("::") and not line.lstrip().startswith("..") and not self._line(self.at):
            self._write_code(self._take_block(indent + 1), "", has_options=False)

    def _take_block(self, least: int) -> list[str]:
        """Take the lines, blank ones among them, that are indented by at least this number of blanks."""
        start = end = self.at
        while self.at < len(self.lines):
            line = self.lines[self.at].expandtabs()
            if line.strip():
                if len(line) - len(line.lstrip()) < least:
                    break
                end = self.at + 1
            self.at += 1
        self.at = end
        return [line.expandtabs().rstrip() for line in self.lines[start:end]]

    def _write_code(self, block: list[str], language: str, *, has_options: bool) -> None:
        self.is_beginning = False
        while has_options and block and _OPTION.match(block[0]):
            del block[0]
        while block and not block[0]:
            del block[0]
        if block:
            indent = min(len(line) - len(line.lstrip()) for line in block if line)
            self.out += ["", fence_code((line[indent:] for line in block), language), ""]


def _is_keywords(name: str) -> bool:
    return name.split()[0].lower() == "keywords"
