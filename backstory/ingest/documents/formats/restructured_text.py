"""reStructuredText -> Markdown's headings and code; all other text stays as it is written.

docutils would read the whole language. But it knows neither the directives nor the roles of Sphinx, Pelican and Nikola
and reports them as errors in the text, it follows ``include`` and ``raw`` unless configured otherwise, and it writes no
Markdown. Search needs the headings, the fields and what is code, and these are decided line by line.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from backstory.ingest.documents.formats.marked_text import (
    MarkedText,
    fence_code,
    join_blocks,
    keep_line,
    write_heading,
)
from backstory.ingest.documents.metadata.front_matter import Field

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


def convert_restructured_text(text: str) -> MarkedText:
    r"""Convert a text.

    Fields are those at the beginning or below the title (``:date: 2024-05-01``), comments at the beginning as Nikola
    writes them (``.. date: 2024-05-01``), and the keywords of ``.. meta::``.

    ``text``: reStructuredText with newlines as ``\n``.
    """
    return _Conversion(text.split("\n")).run()


class _Conversion:
    """One pass over the lines of a text."""

    def __init__(self, lines: Sequence[str]) -> None:
        self.lines = lines
        self.at = 0
        self.out: list[str] = []
        self.fields: list[Field] = []
        self.styles: list[tuple[str, bool]] = []
        self.is_beginning = True

    def run(self) -> MarkedText:
        while self.at < len(self.lines):
            line = self.lines[self.at]
            if not line.strip():
                self.out.append("")
                self.at += 1
            elif self._take_fields() or self._take_heading() or self._take_code() or self._take_unseen():
                pass
            else:
                self.is_beginning = False
                self._take_line()
        return MarkedText(join_blocks(self.out), tuple(self.fields))

    def _line(self, at: int) -> str:
        return self.lines[at].rstrip() if 0 <= at < len(self.lines) else ""

    def _take_fields(self) -> bool:
        if not self.is_beginning:
            return False
        found = _NIKOLA.fullmatch(self._line(self.at)) or _FIELD.fullmatch(self._line(self.at))
        if found is None:
            return False
        number = self.at + 1
        self.at += 1
        more = self._take_block(1) if self._line(self.at).startswith((" ", "\t")) else []
        value = " ".join(filter(None, (part.strip() for part in (found[2] or "", *more))))
        stamp = _STAMP.fullmatch(value)
        value = (stamp[1] or "") if stamp else value
        self.fields.append(Field(found[1].strip(), value or None, number))
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
            number = self.at + 1
            self.at += 1
            for text in self._take_block(1):
                field = _FIELD.fullmatch(text.strip())
                if field is not None and field[1].split()[0].lower() == "keywords":
                    self.fields.append(Field("tags", field[2], number))
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
        start = self.at
        end = start
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
        if not block:
            return
        indent = min(len(line) - len(line.lstrip()) for line in block if line)
        self.out += ["", fence_code((line[indent:] for line in block), language), ""]
