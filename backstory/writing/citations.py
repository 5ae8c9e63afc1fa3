"""The citations and links of a draft: those of what the writer was shown stay or become links, all others are removed.

Models write links in every form that Markdown has, and in HTML. The forms are found one by one, outside of code. What
is left is then parsed as CommonMark, so that no link that this module does not know can slip through.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from backstory.writing.material import Citation, ContextMaterial, WindowMaterial

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from markdown_it.token import Token

_CODE: Final = (
    r"(?P<code>^(?P<fence>`{3,}|~{3,})[^\n]*\n.*?(?:^(?P=fence)[`~]*[ \t]*$|\Z)"
    r"|(?<!`)(?P<ticks>`+)(?!`)[^\n]+?(?<!`)(?P=ticks)(?!`))"
)
_ESCAPED: Final = r"(?P<escaped>\\[^\w\s])"
_DESTINATION: Final = r"(?:<[^<>\n]*>|[^()\s]*(?:\([^()\s]*\)[^()\s]*)*)"
_TITLE: Final = r"(?:\s+(?:\"[^\"\n]*\"|'[^'\n]*'|\([^()\n]*\)))?"
_WORDS: Final = r"(?:\\.|[^\[\]\\\n]|\[[^\[\]\n]*\])*"
_INLINE: Final = (
    rf"(?P<image>!?)\[(?P<words>{_WORDS})\]"
    rf"(?:\(\s*(?P<target>{_DESTINATION}){_TITLE}\s*\)|\[(?P<label>[^\[\]\n]*)\])?"
)
_ANCHOR: Final = (
    r"<a\b[^<>]*?href\s*=\s*(?:\"(?P<href>[^\"<>]*)\"|'(?P<href2>[^'<>]*)'|(?P<href3>[^\s<>]+))[^<>]*>"
    r"(?P<inside>.*?)</a\s*>"
)
_AUTOLINK: Final = r"<(?P<auto>(?:[A-Za-z][A-Za-z0-9+.-]{1,31}:[^\s<>]*|[^\s<>@]+@[^\s<>@]+))>"
_BARE: Final = r"(?P<bare>\b(?:https?|ftp)://[^\s<>\[\]]+|\bwww\.[^\s<>\[\]]+)"
_HTML: Final = r"(?P<tag><(?=[A-Za-z/!?]))"
_FOUND: Final = re.compile(
    f"{_CODE}|{_ESCAPED}|{_ANCHOR}|{_INLINE}|{_AUTOLINK}|{_BARE}|{_HTML}",
    re.DOTALL | re.MULTILINE | re.IGNORECASE,
)
_DEFINITION: Final = re.compile(
    rf"^ {{0,3}}\[(?P<label>[^\[\]\n]+)\]:[ \t]*(?P<target><[^<>\n]*>|\S+){_TITLE}[ \t]*$\n?", re.MULTILINE
)
_NUMBER: Final = re.compile(r"\^?(\d{1,4})\Z")
_NUMBERS: Final = re.compile(r"\d{1,4}(?:\s*[,;]\s*\d{1,4})+\Z")
_SHOWN: Final = re.compile(r"(?:https?|ftp)://[^\s<>\[\]\"']+|\bwww\.[^\s<>\[\]\"']+", re.IGNORECASE)
_WEB: Final = re.compile(r"https?://", re.IGNORECASE)
_SAFE_IN_ADDRESS: Final = "/.-_~:?#@!$&*+,;=%"
"""What stays in the address of a document: no bracket or blank, with which the link would end."""
_TRAILING: Final = ".,;:!?*_~'\""
_CLOSING: Final = {")": "(", "]": "[", "}": "{"}


@dataclass(frozen=True)
class LinkedText:
    """A text whose citations are links.

    Attributes:
        text: Markdown without HTML.
        cited: Ids of the cited documents, in order of their first citation.
        removed: Number of links and citations that named nothing that the writer was shown.
        fault: What is left that must not be in a post; None if nothing is.
    """

    text: str
    cited: tuple[str, ...]
    removed: int
    fault: str | None = None


def link_citations(text: str, window: WindowMaterial, context: ContextMaterial, *, folder: str) -> LinkedText:
    """Turn each citation of a shown document into a link to its file or address, and remove every other link.

    An address stays if a message or a passage that the writer was shown holds it. HTML is escaped.

    Args:
        text: Markdown in which ``[2]`` cites a document, and ``[words](2)`` links to it.
        window: The messages that the writer was shown.
        context: The documents that the writer was shown.
        folder: Folder of the post, relative to the workspace; links are relative to it.

    Returns:
        The text. Of a removed link its words stay; a removed citation or bare address leaves nothing; an image leaves
        its description.
    """
    linker = _Linker(_name_targets(context), _list_addresses(window, context), folder)
    linked = linker.rewrite(text)
    allowed = linker.addresses | linker.links
    left = [link for link in find_links(linked) if not {link, _trim(link)[0]} & allowed]
    fault = f"link: the link to {left[0][:80]!r} could not be removed" if left else None
    return LinkedText(linked, tuple(linker.cited), linker.removed, fault)


def find_links(text: str) -> list[str]:
    """List the targets of all links and images of a text, as CommonMark reads it; a piece of HTML counts as one."""
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark")
    return [target for token in _walk(parser.parse(text)) if (target := _target_of(token)) is not None]


def _walk(tokens: Sequence[Token]) -> Iterator[Token]:
    for token in tokens:
        yield token
        yield from _walk(token.children or ())


def _target_of(token: Token) -> str | None:
    if token.type in ("html_block", "html_inline"):
        return token.content
    target = (
        token.attrGet("href")
        if token.type == "link_open"
        else token.attrGet("src")
        if token.type == "image"
        else None
    )
    return None if target is None else str(target)


@dataclass
class _Linker:
    """Rewrites the links of one text, and counts.

    Attributes:
        targets: Citations by every name under which they may be cited.
        addresses: Addresses that the writer was shown.
        folder: Folder of the post.
        cited: Cited documents, in order.
        links: Links to files of documents that were written.
        removed: Number of removed links and citations.
    """

    targets: Mapping[str, Citation]
    addresses: frozenset[str]
    folder: str
    cited: dict[str, None] = field(default_factory=dict)
    links: set[str] = field(default_factory=set)
    removed: int = 0
    definitions: dict[str, str] = field(default_factory=dict)

    def rewrite(self, text: str) -> str:
        self.definitions = {
            _fold(found["label"]): found["target"].strip("<>") for found in _DEFINITION.finditer(text)
        }
        return _FOUND.sub(self._replace, _DEFINITION.sub("", text))

    def _replace(self, found: re.Match[str]) -> str:
        if found["code"] or found["escaped"]:
            return found[0]
        if found["tag"]:
            return "\\<"
        if found["auto"]:
            return self._keep_address(found["auto"], f"<{found['auto']}>")
        if found["bare"]:
            address, rest = _trim(found["bare"])
            return self._keep_address(address, address) + rest
        if found["inside"] is not None:
            target = found["href"] or found["href2"] or found["href3"] or ""
            return self._link(self._rewrite_words(found["inside"]), target, is_image=False)
        return self._replace_inline(found)

    def _replace_inline(self, found: re.Match[str]) -> str:
        words, target, label = found["words"], found["target"], found["label"]
        is_image = bool(found["image"])
        if target is None:
            target = self.definitions.get(_fold(label or words))
        if target is None and label is None:
            return self._cite(found[0], words, is_image=is_image)
        if target is None and _NUMBER.match(words) and _NUMBER.match(label) and not is_image:
            return "".join(self._cite(f"[{one}]", one, is_image=False) for one in (words, label))
        if target is None:
            target = label or words
        # The words of a link are no citation, but may be an image, HTML or an address.
        return self._link(self._rewrite_words(words), target.strip("<>"), is_image=is_image)

    def _cite(self, whole: str, words: str, *, is_image: bool) -> str:
        """Link ``[2]`` and ``[1, 3]``; leave other brackets, such as a list's check box, as they are."""
        if _NUMBERS.match(words) and not is_image:
            return ", ".join(
                filter(
                    None, (self._cite(f"[{one}]", one, is_image=False) for one in re.findall(r"\d+", words))
                )
            )
        number = _NUMBER.match(words)
        if number is None:
            return whole if not words else f"{whole[: whole.index('[')]}[{self._rewrite_words(words)}]"
        citation = None if is_image else self.targets.get(number[1])
        if citation is None:
            self.removed += 1
            return ""
        return self._link_to(citation, f"\\[{citation.number}\\]")

    def _link(self, words: str, target: str, *, is_image: bool) -> str:
        citation = self.targets.get(target) or self.targets.get(target.strip("[]"))
        if not is_image and words.strip() and citation is not None:
            return self._link_to(citation, words)
        if not is_image and words.strip() and _trim(target)[0] in self.addresses:
            return f"[{words}](<{target}>)"
        self.removed += 1
        return words

    def _rewrite_words(self, words: str) -> str:
        """Make the words of a link plain: no image, HTML, address or citation in them."""

        def simplify(found: re.Match[str]) -> str:
            if found["code"] or found["escaped"]:
                return found[0]
            if found["tag"]:
                return "\\<"
            if address := found["bare"] or found["auto"]:
                return address if _trim(address)[0] in self.addresses else ""
            return found["inside"] or found["words"] or ""

        return _FOUND.sub(simplify, words)

    def _keep_address(self, address: str, written: str) -> str:
        if _trim(address)[0] in self.addresses:
            return written
        self.removed += 1
        return ""

    def _link_to(self, citation: Citation, words: str) -> str:
        """Write a link to a document; the words alone for one to which no post may link."""
        self.cited[citation.document_id] = None
        if not citation.target:
            return words
        if _WEB.match(citation.target):
            link = quote(citation.target, safe=_SAFE_IN_ADDRESS)
        else:
            path = os.path.relpath(PurePosixPath(citation.target), PurePosixPath(self.folder))
            link = quote(path, safe="/.-_~")
        self.links.update(find_links(f"[words]({link})"))
        return f"[{words}]({link})"


def _name_targets(context: ContextMaterial) -> Mapping[str, Citation]:
    """Return every name under which a document may be cited: number, path and slug."""
    targets: dict[str, Citation] = {}
    for citation in context.citations:
        for name in (str(citation.number), citation.path, citation.slug):
            if name:
                targets.setdefault(name, citation)
    return targets


def _list_addresses(window: WindowMaterial, context: ContextMaterial) -> frozenset[str]:
    """List the web addresses of all texts that the writer was shown."""
    texts = [message.text for message in window.messages]
    texts += [passage for citation in context.citations for passage in (citation.title, citation.passage)]
    return frozenset(_trim(found)[0] for text in texts for found in _SHOWN.findall(text))


def _trim(address: str) -> tuple[str, str]:
    """Part an address from the punctuation after it."""
    url = address
    while url and (
        url[-1] in _TRAILING or (url[-1] in _CLOSING and url.count(url[-1]) > url.count(_CLOSING[url[-1]]))
    ):
        url = url[:-1]
    return url, address[len(url) :]


def _fold(label: str) -> str:
    return " ".join(label.casefold().split())
