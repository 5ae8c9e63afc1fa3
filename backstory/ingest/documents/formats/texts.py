"""Text files: Markdown, other markups, plain text, and source code."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import PurePosixPath
from typing import Final

from backstory.base.errors import MissingExtraError, ReadError
from backstory.ingest.documents.dates import NO_CHANGE
from backstory.ingest.documents.formats import markup
from backstory.ingest.documents.front_matter import Fields, split_front_matter
from backstory.ingest.documents.parsed_document import DocumentFormat, ParsedDocument
from backstory.ingest.file_kinds import name_binary_kind
from backstory.text.chunking.code import CodeLanguage, find_definitions
from backstory.text.chunking.outline import outline_markdown
from backstory.text.encoding import UTF8, find_encoding

MOST_CODE_CHARACTERS: Final = 1 << 18
"""Maximum length of source code that is parsed; parsing takes up to 500 bytes of memory for each character."""
UNREADABLE_DRAFT: Final = "unreadable_draft"
"""Code of the error of a draft, which matters only where drafts are read."""
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
        problem = "this is not text; remove the file, or give its name another ending"
        raise ReadError(problem, code="binary_file")
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
    tags = tuple(dict.fromkeys((*document.tags, *find_inline_tags(body))))
    return replace(document, tags=tags, conversation=conversation)


def _compose(fields: Fields, text: str, problem: str) -> ParsedDocument:
    if fields.is_draft():
        try:
            return replace(_make(fields, text, problem), is_draft=True)
        except ReadError as error:
            raise ReadError(str(error), code=UNREADABLE_DRAFT) from error
    return _make(fields, text, problem)


def _make(fields: Fields, text: str, problem: str) -> ParsedDocument:
    if not text.strip():
        raise ReadError(f"{problem}; write some, or remove the file", code="empty_document")
    published_at = fields.find_date()
    return ParsedDocument(
        text=text,
        title=fields.text("title") or find_title(text),
        slug=fields.text("slug"),
        published_at=published_at,
        change=NO_CHANGE if published_at else fields.find_change(),
        tags=fields.list_tags(),
        kind=fields.text("kind"),
        tenant=fields.text("tenant"),
    )


def find_inline_tags(text: str) -> tuple[str, ...]:
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


def _read_marked(convert: Callable[[str], markup.Marked]) -> Callable[[bytes, str], ParsedDocument]:
    """Make the reader of a markup, whose fields mean what they mean in front matter."""

    def read(content: bytes, _: str) -> ParsedDocument:
        text, fields = convert(decode_text(content))
        return _compose(Fields(fields), text, "there is no text in it")

    return read


def convert_plain_text(text: str) -> markup.Marked:
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


MARKDOWN: Final = DocumentFormat(
    "markdown", "Markdown", frozenset({".md", ".markdown"}), read_markdown, gives_markdown=True
)
PLAIN_TEXT: Final = DocumentFormat(
    "text", "text", frozenset({".txt", ".text"}), _read_marked(convert_plain_text)
)
"""Plain text, in which most messengers export chats, too."""
RESTRUCTURED_TEXT: Final = DocumentFormat(
    "restructuredtext",
    "reStructuredText",
    frozenset({".rst"}),
    _read_marked(markup.RESTRUCTURED_TEXT.convert),
    gives_markdown=True,
)
ASCIIDOC: Final = DocumentFormat(
    "asciidoc",
    "AsciiDoc",
    frozenset({".adoc", ".asciidoc"}),
    _read_marked(markup.convert_asciidoc),
    gives_markdown=True,
)
ORG_MODE: Final = DocumentFormat(
    "org", "Org mode", frozenset({".org"}), _read_marked(markup.ORG.convert), gives_markdown=True
)
CODE: Final = DocumentFormat("code", "source code", frozenset([*_LANGUAGE_OF, ".css"]), read_code)
