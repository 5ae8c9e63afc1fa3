"""Text files: Markdown, other markups, plain text, and source code.

Everything that cuts, names or shows a part of a document reads Markdown. Another markup is a table of patterns, and one
engine changes lines only where Markdown would find another structure than the markup: headings, code, comments, and
lines that Markdown takes for a heading. docutils and the like would read the whole languages. But they report the
directives of Sphinx or Pelican as errors in the text, they follow ``include``, and they write no Markdown.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import PurePosixPath
from textwrap import dedent
from typing import Final, TypeAlias

from backstory.base.errors import MissingExtraError, ReadError
from backstory.ingest.documents.metadata import DocumentFormat, Fields, ParsedDocument, split_front_matter
from backstory.ingest.file_kinds import name_binary_kind
from backstory.text.chunking.code import CodeLanguage, find_definitions
from backstory.text.chunking.outline import outline_markdown
from backstory.text.encoding import UTF8, find_encoding

Field: TypeAlias = "tuple[str, str | None]"
Marked: TypeAlias = "tuple[str, list[Field]]"
"""A body as Markdown, and the fields at the beginning of the file."""
MOST_CODE_CHARACTERS: Final = 1 << 18
"""Maximum length of source code that is parsed; parsing takes up to 500 bytes of memory for each character."""
UNREADABLE_DRAFT: Final = "unreadable_draft"
"""Code of the error of a draft, which matters only where drafts are read."""
NO_TEXT: Final = "this is not text; remove the file, or give its name another ending"
_CONTROL: Final = re.compile(r"[\x00-\x08\x0e-\x1f]")
"""Characters that occur only if the encoding was guessed wrongly, or if the file is binary."""
# As in Obsidian, a tag is at the start of a line or after white space, and does not consist of digits alone.
_TAG: Final = re.compile(r"(?<!\S)#([\w/-]*[^\W\d][\w/-]*)")
_TITLE_LINE: Final = re.compile(r"\s*(?!#)(\S.{0,98}\S)[ \t]*\n[ \t]*\n\s*\S")
_ENDS: Final = (".", "!", ",", ";", ":", "。", "！", "，", "；", "：")
"""Marks after which a line is a sentence, or begins one."""
_LANGUAGES: Final[dict[CodeLanguage, str]] = {
    "bash": ".sh .bash",
    "c": ".c .h",
    "cpp": ".cc .cpp .cxx .hh .hpp .hxx",
    "go": ".go",
    "java": ".java",
    "javascript": ".js .mjs .cjs .jsx",
    "python": ".py .pyi .pyw",
    "ruby": ".rb",
    "rust": ".rs",
    "tsx": ".tsx",
    "typescript": ".ts .mts .cts",
}
_LANGUAGE_OF: Final = {suffix: name for name, suffixes in _LANGUAGES.items() for suffix in suffixes.split()}


def decode_text(content: bytes, encoding: str | None = None) -> str:
    r"""Decode a text file, by default in the encoding that is detected, and write its line ends as ``\n``."""
    encoding = encoding or find_encoding(content)
    try:
        text = content.decode(encoding).removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        name = "UTF-8" if encoding == UTF8 else encoding
        problem = f"line {line}: this is not {name} text; save the file as UTF-8"
        raise ReadError(problem, code="not_utf8") from error
    if encoding != UTF8 and (name_binary_kind(content) or _CONTROL.search(text)):
        raise ReadError(NO_TEXT, code="binary_file")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def find_title(markdown: str) -> str | None:
    """Return the first heading of a text; None if it has none."""
    return next(filter(None, outline_markdown(markdown).headings), None)


def read_markdown(content: bytes, _: str) -> ParsedDocument:
    """Read Markdown with front matter; tags in the text are listed after those of the front matter."""
    fields, body = split_front_matter(decode_text(content))
    document = _compose(fields, body, "there is no text after the front matter")
    # A post of an earlier version did not say whose it is.
    conversation = fields.text("conversation") or ("" if fields.text("window") else None)
    tags = tuple(dict.fromkeys((*document.tags, *_find_inline_tags(body))))
    return replace(document, tags=tags, conversation=conversation)


def _compose(fields: Fields, text: str, problem: str) -> ParsedDocument:
    is_draft = fields.is_draft()
    try:
        if not text.strip():
            raise ReadError(f"{problem}; write some, or remove the file", code="empty_document")
        published_at, change = fields.find_dates()
        return ParsedDocument(
            text=text,
            title=fields.text("title") or find_title(text),
            slug=fields.text("slug"),
            published_at=published_at,
            change=change,
            tags=fields.list_tags(),
            kind=fields.text("kind"),
            tenant=fields.text("tenant"),
            is_draft=is_draft,
        )
    except ReadError as error:
        raise ReadError(str(error), code=UNREADABLE_DRAFT if is_draft else error.code) from error


def _find_inline_tags(text: str) -> tuple[str, ...]:
    """Find the tags in the running text of Markdown, without ``#``, each once; code, links and HTML are skipped."""
    if _TAG.search(text) is None:
        return ()
    from markdown_it import MarkdownIt

    texts = [
        child.content
        for token in MarkdownIt("commonmark").parse(text)
        for child in token.children or ()
        if child.type == "text"
    ]
    tags = (tag.strip("/-") for part in texts for tag in _TAG.findall(part))
    return tuple(dict.fromkeys(filter(None, tags)))


def _convert_plain_text(text: str) -> Marked:
    """Find the title of a plain text: a short first line that is no sentence, before a blank line and more text."""
    match = _TITLE_LINE.match(text)
    is_title = match and any(map(str.isalpha, match[1])) and not match[1].endswith(_ENDS)
    return text, [("title", match[1])] if match and is_title else []


def read_code(content: bytes, uri: str) -> ParsedDocument:
    """Read source code, and parse it here, in a process with limits. What its parser refuses is cut as text."""
    text = decode_text(content)
    if not text.strip():
        raise ReadError("the file holds no text; write some, or remove it", code="empty_document")
    path = PurePosixPath(uri)
    language = _LANGUAGE_OF.get(path.suffix.lower())
    problem = None
    if len(text) > MOST_CODE_CHARACTERS:
        problem = f"the code has more than the {MOST_CODE_CHARACTERS:,} characters that are parsed"
    elif language is not None:
        try:
            find_definitions(text, language)
        except MissingExtraError as error:
            problem = str(error)
    return ParsedDocument(
        text=text,
        title=path.name,
        chunker="sentence" if problem or language is None else language,
        unread=f"{problem}; it was cut as text, without its definitions" if problem else None,
    )


_HEADING: Final = re.compile(r"^( {0,3})(#{1,6})(?=\s|$)")
_TICKS: Final = re.compile(r"`{3,}")
_LINE: Final = re.compile(r".*")


def keep_line(line: str) -> str:
    """Escape a line that Markdown would take for a heading; every other line stays as it is."""
    return _HEADING.sub(r"\1\\\2", line)


@dataclass(frozen=True)
class Markup:
    """The patterns of a markup, each of which begins at a line and ends with one; the first that matches counts.

    ``field``: a ``name`` and its ``value``. ``heading``: its ``title``, below ``marks`` of its level, or with a line of
    the same ``mark`` around it. ``code``: a block of ``code`` in a ``language``, perhaps below a line that is
    ``shown``; with an ``indent``, what is indented further is the code. ``hidden``: a comment, or what else is not
    shown.
    """

    field: re.Pattern[str]
    heading: re.Pattern[str]
    code: re.Pattern[str]
    hidden: re.Pattern[str]

    def convert(self, text: str) -> Marked:
        """Convert a text; fields are read up to the first blank line after its first paragraph."""
        text = "\n".join(line.rstrip() for line in text.split("\n"))
        out: list[str] = []
        fields: list[Field] = []
        styles: list[str] = []
        is_header, has_text = True, False
        at = 0
        while at <= len(text):
            found = self.field.match(text, at) if is_header else None
            if found is not None:
                fields += _read_field(found["name"], found["value"] or "")
            elif found := self.heading.match(text, at):
                level = _find_level(found, styles)
                out += ["", f"{'#' * min(level, 6)} {found['title']}", ""]
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
        # Between two blocks is at most one blank line.
        return "\n".join(block for before, block in pairwise(["", *out]) if before or block), fields


def _find_level(found: re.Match[str], styles: list[str]) -> int:
    """Return the level of a heading: the number of its marks, or the place of its style among those before."""
    named = found.groupdict()
    if named.get("marks"):
        return len(named["marks"])
    style = f"{named['over'] or ''}"[:1] + found[0][-1]
    if style not in styles:
        styles.append(style)
    return styles.index(style) + 1


def _write_code(found: re.Match[str]) -> list[str]:
    """Write a block of fenced code, with a fence that none of its lines can end."""
    named = found.groupdict(default="")
    code = dedent(named["code"].expandtabs()) if "indent" in named else named["code"]
    fence = "`" * (1 + max(map(len, _TICKS.findall(code)), default=2))
    code = "\n".join([f"{fence}{named['language']}", code.strip("\n"), fence])
    shown = named.get("shown")
    return [*([keep_line(named.get("indent", "") + shown)] if shown else []), "", code, ""]


_NAMES: Final = {"revdate": "date", "keywords": "tags", "filetags": "tags"}
_ORG_TAGS: Final = re.compile(r":(?:[\w@#%]+:)+")
_TIMESTAMP: Final = re.compile(
    r"[<\[]([0-9]{4}-[0-9]{2}-[0-9]{2})(?: +[^\W\d]+\.?)?(?: +([0-9]{1,2}:[0-9]{2})(?:-[0-9]{1,2}:[0-9]{2})?)?"
    r"(?: +[.+-]{1,2}[0-9]+[hdwmy])*[>\]]"
)


def _read_field(name: str, value: str) -> list[Field]:
    """Read a field; one whose value is a macro, an attribute, or a mark of a version control system is none."""
    name, value = _NAMES.get(name.lower(), name.lower().strip()), " ".join(value.split())
    if _ORG_TAGS.fullmatch(value):
        value = " ".join(value.split(":")).strip()
    if stamp := _TIMESTAMP.fullmatch(value):
        value = " ".join(filter(None, stamp.groups()))
    return [] if value.startswith(("\\", "{", "$")) else [(name, value or None)]


_ASCIIDOC: Final = Markup(
    field=re.compile(r"(?m):(?P<name>[\w-]+):(?:[ \t]+(?:(?P<value>[^{\n]*)|.*))?$"),
    heading=re.compile(r"(?P<marks>={1,6}|#{1,6})[ \t]+(?P<title>\S.*)"),
    code=re.compile(
        r"(?m)(?:\[(?:source|,)(?:%\w+)?,? *(?P<language>[\w+-]*).*\]\n++(?P<shown>\.[^\s.].*(?=\n))?\n*+)?"
        r"(?P<fence>-{4,}|\.{4,}|`{3,})(?:(?<=`)[\w+-]+)?(?P<code>(?:\n.*)*?)(?:\n(?P=fence)$|\Z)"
    ),
    hidden=re.compile(r"(?m)(?P<fence>/{4,})(?:\n.*)*?(?:\n(?P=fence)$|\Z)|//.*|\[(?:source|,).*\]$"),
)
_REVISION: Final = re.compile(
    r"(?mx)^((?:=|\#)[ ].+\n (?:(?://|:).*\n)* \w[\w.'’-]*(?:[ ][\w.'’-]+){0,3}(?:[ ]<[^<>\n]+>)?(?:;[ ].+)?\n)"
    r"(?: (?:v?\d[\w.-]*,[ \t]*)?([^:{}\n]*\d{4}[^:{}\n]*)(?::[ \t]+.*)? | v\d[\w.-]*(?:[,:].*)?)$"
)
"""Title, author, and below them the version: ``v2.0, 2026-02-10: remark``."""


def _convert_asciidoc(text: str) -> Marked:
    """Convert AsciiDoc; its fields are the attributes of its header (``:revdate: 2024-05-01``)."""
    return _ASCIIDOC.convert(_REVISION.sub(r"\1:revdate: \2", text, count=1))


# A drawer has at most 2000 lines, so that many lines that look like the first of one are read in linear time.
_ORG: Final = Markup(
    field=re.compile(r"#\+(?P<name>[A-Za-z_]+):[ \t]*(?P<value>.*)"),
    heading=re.compile(
        r"(?m)(?P<marks>\*+)[ \t]+(?!(?:[A-Z]+ )?(?:\[#.\] )?COMMENT(?: |$))(?P<title>.*?)(?:[ \t]+:[\w@#%:]+:)?$"
    ),
    code=re.compile(
        r"(?m)[ \t]*(?i:\#\+begin_(?P<kind>src|example)\b(?:(?<=src)[ \t]*(?P<language>\S*))?).*"
        r"(?P<code>(?:\n.*)*?)(?:\n[ \t]*(?i:\#\+end_(?P=kind))$|\Z)"
    ),
    hidden=re.compile(
        r"""(?mx)\#\+[A-Za-z_]+:.* | [ \t]*(?i:\#\+begin_comment)\b.*(?:\n.*)*?(?:\n[ \t]*(?i:\#\+end_comment)$|\Z)
        | [ \t]*:[\w-]+:(?:\n(?!\*+[ \t]).*){0,2000}?\n[ \t]*(?i::end:)$
        | (?P<stars>\*+)[ \t]+(?:[A-Z]+[ ])?(?:\[\#.\][ ])?COMMENT(?:[ ].*)?$
          (?:\n(?:(?P=stars)\*+[ \t].*|(?!\*+[ \t]).*))*
        | \#(?:[ ].*)?$"""
    ),
)


_MARK: Final = r"[!-/:-@\[-`{-~]"
_RESTRUCTURED_TEXT: Final = Markup(
    field=re.compile(
        r"(?m)(?:\.\.[ ](?=\w+:)|:)(?P<name>(?![\s:_])(?:\\.|[^:\\\n])+):(?P<value>(?:[ \t]+.*)?(?:\n[ \t].*)*)$"
    ),
    heading=re.compile(
        rf"""(?mx)(?: (?P<over>(?P<mark>{_MARK})(?P=mark){{2,}})\n[ \t]* | (?<![^\n]\n) )
        (?!{_MARK}{{3,}}$) (?P<title> \S.{{0,2}}(?=\n) | \S.*(?=\n.{{4}}) ) \n
        (?(over) (?P=over) | (?P<line>{_MARK})(?P=line){{2,}} )$"""
    ),
    code=re.compile(
        r"""(?x)(?P<indent>[ ]*+)(?:
        \.\.[ ](?:code-block|code|sourcecode|highlight|doctest|parsed-literal)::[ \t]*(?P<language>\S*)
        (?:\n(?P=indent)[ \t]+:[\w-]+:.*)*
        | (?P<shown>(?!\.\.).*::)\n)(?P<code>(?:\n+(?P=indent)[ \t].*)+)"""
    ),
    hidden=re.compile(
        r"""(?mx)\.\.(?:[ ]highlight::.* | [ ]_.*:.* | [ ](?:meta::|(?!\[|\||_|[\w:+.-]+::).*)(?:\n+[ \t].*)*
        | \n[ \t].*(?:\n+[ \t].*)*)?$"""
    ),
)


def _read_by(
    convert: Callable[[str], Marked], name: str, title: str, *suffixes: str, gives_markdown: bool = True
) -> DocumentFormat:
    """Make the format of a markup, whose fields mean what they mean in front matter."""

    def read(content: bytes, _: str) -> ParsedDocument:
        text, fields = convert(decode_text(content))
        return _compose(Fields(fields), text, "there is no text in it")

    return DocumentFormat(name, title, frozenset(suffixes), read, gives_markdown=gives_markdown)


MARKDOWN: Final = DocumentFormat(
    "markdown", "Markdown", frozenset({".md", ".markdown"}), read_markdown, gives_markdown=True
)
PLAIN_TEXT: Final = _read_by(_convert_plain_text, "text", "text", ".txt", ".text", gives_markdown=False)
"""Plain text, in which most messengers export chats, too."""
RESTRUCTURED_TEXT: Final = _read_by(
    _RESTRUCTURED_TEXT.convert, "restructuredtext", "reStructuredText", ".rst"
)
ASCIIDOC: Final = _read_by(_convert_asciidoc, "asciidoc", "AsciiDoc", ".adoc", ".asciidoc")
ORG_MODE: Final = _read_by(_ORG.convert, "org", "Org mode", ".org")
CODE: Final = DocumentFormat("code", "source code", frozenset([*_LANGUAGE_OF, ".css"]), read_code)
