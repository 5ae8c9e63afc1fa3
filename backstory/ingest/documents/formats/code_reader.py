"""Source code as documents, cut at its definitions."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Final

from backstory.base.errors import MissingExtraError, ReadError
from backstory.ingest.documents.formats.text_decoding import decode_text
from backstory.ingest.documents.parsed_document import Chunker, ParsedDocument
from backstory.text.chunking.code import CodeLanguage, cut_code
from backstory.text.chunking.python_code import PythonSyntaxError, outline_python
from backstory.text.chunking.tokens import estimate_tokens
from backstory.text.encoding import find_encoding

MOST_CHARACTERS: Final = 1 << 18
"""Maximum length of source code that is parsed; parsing takes up to 500 bytes of memory for each character."""

_PYTHON_SUFFIXES: Final = frozenset({".py", ".pyi", ".pyw"})
_LANGUAGES: Final[dict[CodeLanguage, str]] = {
    "bash": ".sh .bash",
    "c": ".c .h",
    "cpp": ".cc .cpp .cxx .hh .hpp .hxx",
    "css": ".css",
    "go": ".go",
    "java": ".java",
    "javascript": ".js .mjs .cjs .jsx",
    "ruby": ".rb",
    "rust": ".rs",
    "tsx": ".tsx",
    "typescript": ".ts .mts .cts",
}
_LANGUAGE_OF: Final = {suffix: name for name, suffixes in _LANGUAGES.items() for suffix in suffixes.split()}
_AS_TEXT: Final[Chunker] = "sentence"
_TRIAL_TOKENS: Final = 256


class CodeReader:
    """Reads source code in any encoding that :func:`backstory.text.encoding.find_encoding` detects.

    The title is the name of the file. Code that its parser refuses is cut as text, and ``unread`` says why.
    """

    format = "code"
    suffixes = _PYTHON_SUFFIXES | frozenset(_LANGUAGE_OF)
    find_encoding = staticmethod(find_encoding)

    def read(self, content: bytes, uri: str, *, drafts: bool = True) -> ParsedDocument | None:  # noqa: ARG002
        """Read one file; see :class:`backstory.ingest.documents.reader.DocumentReader`."""
        text = decode_text(content, uri)
        if not text.strip():
            raise ReadError(f"{uri}: the file holds no text; write some, or remove it", code="empty_document")
        path = PurePosixPath(uri)
        chunker, problem = _choose_chunker(text, path.suffix.lower())
        return ParsedDocument(
            text=text,
            title=path.name,
            chunker=chunker,
            unread=f"{problem}; it was cut as text, without its definitions" if problem else None,
        )


def _choose_chunker(text: str, suffix: str) -> tuple[Chunker, str | None]:
    """Choose how to cut code, and say why it is not cut at its definitions.

    The code is parsed here because a file is read in a process with limits, so that what breaks a parser is refused.
    """
    if len(text) > MOST_CHARACTERS:
        return (
            _AS_TEXT,
            f"the code has {len(text):,} characters, more than the {MOST_CHARACTERS:,} that are parsed",
        )
    if suffix in _PYTHON_SUFFIXES:
        try:
            outline_python(text)
        except PythonSyntaxError as error:
            return _AS_TEXT, f"this is {error}"
        return "python", None
    language = _LANGUAGE_OF[suffix]
    try:
        cut_code(
            [text],
            language=language,
            max_tokens=[_TRIAL_TOKENS],
            overlap_tokens=0,
            count_tokens=estimate_tokens,
        )
    except MissingExtraError as error:
        return _AS_TEXT, str(error)
    return language, None
