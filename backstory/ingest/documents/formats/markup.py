"""Markups whose headings are written line by line -> Markdown's headings and code; all other text stays as it is.

Everything that cuts, names or shows a part of a document reads Markdown. A markup is a table of patterns, and one
engine changes lines only where Markdown would find another structure than the markup: headings, code, comments, and
lines that Markdown takes for a heading. docutils and the like would read the whole languages. But they report the
directives of Sphinx or Pelican as errors in the text, they follow ``include``, and they write no Markdown.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from textwrap import dedent
from typing import Final, TypeAlias

MOST_LEVELS: Final = 6
"""Levels of headings in Markdown; deeper ones are written on the last level."""
Field: TypeAlias = "tuple[str, str | None]"
Marked: TypeAlias = "tuple[str, list[Field]]"
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


@dataclass(frozen=True)
class Markup:
    """The patterns of a markup, each of which begins at a line and ends with one; the first that matches counts.

    ``field``: a ``name`` and its ``value``; ``has_fields_anywhere``: they may follow text. ``heading``: its ``title``,
    below ``marks`` of its level, or with a line of the same ``mark`` around it. ``code``: a block of ``code`` in a
    ``language``, perhaps below a line that is ``shown``; with an ``indent``, what is indented further is the code.
    ``hidden``: a comment, or what else is not shown.
    """

    field: re.Pattern[str]
    heading: re.Pattern[str]
    code: re.Pattern[str]
    hidden: re.Pattern[str]
    has_fields_anywhere: bool = False

    def convert(self, text: str) -> Marked:
        """Convert a text; fields are read up to the first blank line after its first paragraph."""
        text = "\n".join(line.rstrip() for line in text.split("\n"))
        out: list[str] = []
        fields: list[Field] = []
        styles: list[str] = []
        is_header, has_text = True, False
        at = 0
        while at <= len(text):
            found = self.field.match(text, at) if is_header or self.has_fields_anywhere else None
            if found is not None:
                fields += _read_field(found["name"], found["value"] or "")
            elif found := self.heading.match(text, at):
                level = _find_level(found, styles)
                out += ["", write_heading(level, found["title"]), ""]
                is_header = is_header and level == 1
            elif found := self.code.match(text, at):
                out += _write_code(found)
                is_header = False
            elif not (found := self.hidden.match(text, at)):
                found = _LINE.match(text, at)
                out.append(keep_line(found[0]) if found else "")
                is_header = is_header and bool(out[-1] or not has_text)
                has_text = has_text or bool(out[-1])
            at = found.end() + 1 if found else len(text) + 1
        return _join_blocks(out), fields


_LINE: Final = re.compile(r".*")


def _find_level(found: re.Match[str], styles: list[str]) -> int:
    """Return the level of a heading: the number of its marks, or the place of its style among those before."""
    named = found.groupdict()
    if named.get("marks"):
        return len(named["marks"])
    style = f"{named['over'] or ''}"[:1] + found[0][-1]
    if style not in styles:
        styles.append(style)
    return styles.index(style) + 1


def _write_code(found: re.Match[str]) -> Iterator[str]:
    named = found.groupdict()
    code = found["code"]
    if "indent" in named:
        code = dedent(code.expandtabs())
    if shown := named.get("shown"):
        yield keep_line(f"{named.get('indent', '')}{shown}")
    yield from ("", fence_code(code.strip("\n").split("\n"), found["language"] or ""), "")


def _join_blocks(blocks: Iterable[str]) -> str:
    """Join lines and blocks of code, with at most one blank line between two."""
    retained: list[str] = []
    for block in blocks:
        if block or (retained and retained[-1]):
            retained.append(block)
    return "\n".join(retained)


_NAMES: Final = {"revdate": "date", "keywords": "tags", "filetags": "tags"}
_ORG_TAGS: Final = re.compile(r":(?:[\w@#%]+:)+")
_STAMP: Final = re.compile(r"\$\w+(?:: *(.*?) *)?\$")
"""What a version control system puts into a file: ``$Date: 2024-05-01 $``."""
_TIMESTAMP: Final = re.compile(
    r"[<\[]([0-9]{4}-[0-9]{2}-[0-9]{2})(?: +[^\W\d]+\.?)?(?: +([0-9]{1,2}:[0-9]{2})(?:-[0-9]{1,2}:[0-9]{2})?)?"
    r"(?: +[.+-]{1,2}[0-9]+[hdwmy])*[>\]]"
)


def _read_field(name: str, value: str) -> list[Field]:
    """Read a field; one whose value is a macro or an attribute of the markup is none."""
    name, value = _NAMES.get(name.lower(), name.lower().strip()), " ".join(value.split())
    if _ORG_TAGS.fullmatch(value):
        value = " ".join(value.split(":")).strip()
    if stamp := _TIMESTAMP.fullmatch(value) or _STAMP.fullmatch(value):
        value = " ".join(filter(None, stamp.groups()))
    return [] if value.startswith(("\\", "{")) else [(name, value or None)]


_ASCIIDOC: Final = Markup(
    field=re.compile(r":(?P<name>[\w-]+):(?:[ \t]+(?:(?P<value>[^{\n]*)|.*))?$", re.MULTILINE),
    heading=re.compile(r"(?P<marks>={1,6}|#{1,6})[ \t]+(?P<title>\S.*)"),
    code=re.compile(
        r"(?:\[(?:source|,)(?:%\w+)?,? *(?P<language>[\w+-]*).*\]\n++(?P<shown>\.[^\s.].*(?=\n))?\n*+)?"
        r"(?P<fence>-{4,}|\.{4,}|`{3,})(?:(?<=`)[\w+-]+)?(?P<code>(?:\n.*)*?)(?:\n(?P=fence)$|\Z)",
        re.MULTILINE,
    ),
    hidden=re.compile(
        r"(?P<fence>/{4,})(?:\n.*)*?(?:\n(?P=fence)$|\Z)|//.*|\[(?:source|,).*\]$", re.MULTILINE
    ),
)
_REVISION: Final = re.compile(
    r"^((?:=|\#)[ ].+\n (?:(?://|:).*\n)* \w[\w.'’-]*(?:[ ][\w.'’-]+){0,3}(?:[ ]<[^<>\n]+>)?(?:;[ ].+)?\n)"
    r"(?: (?:v?\d[\w.-]*,[ \t]*)?([^:{}\n]*\d{4}[^:{}\n]*)(?::[ \t]+.*)? | v\d[\w.-]*(?:[,:].*)?)$",
    re.MULTILINE | re.VERBOSE,
)
"""Title, author, and below them the version: ``v2.0, 2026-02-10: remark``."""


def convert_asciidoc(text: str) -> Marked:
    """Convert AsciiDoc; its fields are the attributes of its header (``:revdate: 2024-05-01``)."""
    return _ASCIIDOC.convert(_REVISION.sub(r"\1:revdate: \2", text, count=1))


# A drawer has at most 2000 lines, so that many lines that look like the first of one are read in linear time.
ORG: Final = Markup(
    field=re.compile(r"#\+(?P<name>[A-Za-z_]+):[ \t]*(?P<value>.*)"),
    heading=re.compile(
        r"(?P<marks>\*+)[ \t]+(?!(?:[A-Z]+ )?(?:\[#.\] )?COMMENT(?: |$))(?P<title>.*?)(?:[ \t]+:[\w@#%:]+:)?$",
        re.MULTILINE,
    ),
    code=re.compile(
        r"[ \t]*(?i:\#\+begin_(?P<kind>src|example)\b(?:(?<=src)[ \t]*(?P<language>\S*))?).*"
        r"(?P<code>(?:\n.*)*?)(?:\n[ \t]*(?i:\#\+end_(?P=kind))$|\Z)",
        re.MULTILINE,
    ),
    hidden=re.compile(
        r"""[ \t]*(?i:\#\+begin_comment)\b.*(?:\n.*)*?(?:\n[ \t]*(?i:\#\+end_comment)$|\Z)
        | [ \t]*:[\w-]+:(?:\n(?!\*+[ \t]).*){0,2000}?\n[ \t]*(?i::end:)$
        | (?P<stars>\*+)[ \t]+(?:[A-Z]+[ ])?(?:\[\#.\][ ])?COMMENT(?:[ ].*)?$
          (?:\n(?:(?P=stars)\*+[ \t].*|(?!\*+[ \t]).*))*
        | \#(?:[ ].*)?$""",
        re.MULTILINE | re.VERBOSE,
    ),
    has_fields_anywhere=True,
)


_MARK: Final = r"[!-/:-@\[-`{-~]"
RESTRUCTURED_TEXT: Final = Markup(
    field=re.compile(
        r"(?:\.\.[ ](?=\w+:)|:)(?P<name>(?![\s:_])(?:\\.|[^:\\\n])+):(?P<value>(?:[ \t]+.*)?(?:\n[ \t].*)*)$",
        re.MULTILINE,
    ),
    heading=re.compile(
        rf"""(?: (?P<over>(?P<mark>{_MARK})(?P=mark){{2,}})\n[ \t]* | (?<![^\n]\n) )
        (?!{_MARK}{{3,}}$) (?P<title> \S.{{0,2}}(?=\n) | \S.*(?=\n.{{4}}) ) \n
        (?(over) (?P=over) | (?P<line>{_MARK})(?P=line){{2,}} )$""",
        re.MULTILINE | re.VERBOSE,
    ),
    code=re.compile(
        r"""(?P<indent>[ ]*+)(?:
        \.\.[ ](?:code-block|code|sourcecode|highlight|doctest|parsed-literal)::[ \t]*(?P<language>\S*)
        (?:\n(?P=indent)[ \t]+:[\w-]+:.*)*
        | (?P<shown>(?!\.\.).*::)\n)(?P<code>(?:\n+(?P=indent)[ \t].*)+)""",
        re.VERBOSE,
    ),
    hidden=re.compile(
        r"""\.\.(?:[ ]highlight::.* | [ ]_.*:.* | [ ](?:meta::|(?!\[|\||_|[\w:+.-]+::).*)(?:\n+[ \t].*)*
        | \n[ \t].*(?:\n+[ \t].*)*)?$""",
        re.MULTILINE | re.VERBOSE,
    ),
)
