"""The posts of the demo in the terminal: how many there are, and the beginning of one."""

import re
import textwrap
from collections.abc import Iterator
from typing import Final

from rich.console import Console
from rich.text import Text

from backstory.base.wording import count, inflect
from backstory.interfaces.cli.terminal import plain, plain_line
from backstory.interfaces.pages.site.build import Site
from backstory.interfaces.pages.site.library import SitePost

_TOPICS: Final = 1
_WIDTH: Final = 78
_LINK: Final = re.compile(r"\[((?:\\.|[^\[\]\\])*)\]\([^()\s]*\)")
_STRONG: Final = re.compile(r"(?<!\\)(\*{1,2}|_)(?=\S)(.+?)(?<=[^\s\\])\1")
_ESCAPED: Final = re.compile(r"\\([!-/:-@\[-`{-~])")


def show_posts(site: Site, window_id: str, console: Console) -> None:
    """Print the number of posts, the targets of their links, and the beginning of the post of a window."""
    posts = site.library.posts
    between = site.library.links_between_posts
    links = sum(len(post.cited) for post in posts)
    documents = len({use.document_id for post in posts for use in post.cited})
    earlier = f"; {between} of the links lead to its own earlier posts" if between else ""
    console.print(
        plain(
            textwrap.fill(
                f"A writer without a model has written {count(len(posts), 'post')}, one for each window, with "
                f"{count(links, 'link')} to {count(documents, 'document')}{earlier}. One begins so:",
                _WIDTH,
            )
        )
    )
    console.print()
    for line in _shorten(next(post for post in posts if post.window.window_id == window_id)):
        console.print(line)


def _shorten(post: SitePost) -> Iterator[Text]:
    """Return the lines of a post up to its last shown topic, and a line that counts the rest."""
    yield plain_line(post.title, "bold")
    blocks = [block for block in post.text.split("\n\n") if block.strip()]
    topics = [place for place, block in enumerate(blocks) if block.startswith("## ")]
    shown = blocks[: topics[_TOPICS]] if len(topics) > _TOPICS else blocks
    for block in shown:
        yield Text()
        yield from _print_block(block)
    if len(topics) > _TOPICS:
        yield Text()
        more = len(topics) - _TOPICS
        yield plain(f"... and {more} more {inflect(more, 'topic')}, in {post.path}", "dim")


def _print_block(block: str) -> Iterator[Text]:
    for line in block.strip().splitlines():
        heading = line.startswith("#")
        words = _write_plainly(line.lstrip("# ") if heading else line)
        hanging = "  " if words.startswith("- ") else ""
        for part in textwrap.wrap(words, _WIDTH, subsequent_indent=hanging):
            yield plain(part, "bold" if heading else "")


def _write_plainly(markdown: str) -> str:
    """Leave out what only Markdown needs: addresses of links, marks of emphasis and escapes."""
    return _ESCAPED.sub(r"\1", _STRONG.sub(r"\2", _LINK.sub(r"\1", markdown)))
