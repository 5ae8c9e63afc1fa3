"""Resolve the links of posts and documents: to pages of the site, to the web, or nowhere."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote, urlsplit

from backstory.interfaces.pages.report.palette import name_paint
from backstory.interfaces.pages.site.addresses import address_document, address_post, link_pages
from backstory.interfaces.pages.site.library import Library, SitePost, Use
from backstory.interfaces.pages.site.markdown import Target

_WEB: Final = ("http", "https", "mailto")


@dataclass(frozen=True)
class SiteLinks:
    """The pages of all posts and documents.

    Attributes:
        pages: Page by document id.
        files: Document id or, of a post that is no document, page by path in the workspace.
        homes: Where documents live in the web, by document id.
    """

    pages: Mapping[str, str]
    files: Mapping[str, str]
    homes: Mapping[str, str]

    def point(self, here: str, document_id: str) -> str | None:
        """Return the link from a page to where a document lives, else to its page; None if it has neither."""
        return self.homes.get(document_id) or self.point_page(here, document_id)

    def point_page(self, here: str, document_id: str) -> str | None:
        """Return the link from a page to that of a document; None if it has no page."""
        page = self.pages.get(document_id)
        return None if page is None else link_pages(here, page)

    def resolve(self, here: str, file: str, address: str) -> Target | None:
        """Resolve a link of a document's text.

        Args:
            here: Page that shows the text.
            file: File of the text, relative to the workspace.
            address: Address as the text holds it.

        Returns:
            A page of the site, or an address in the web, where a document that has one lives. None for anything
            else, such as a file without a page.
        """
        try:
            parts = urlsplit(address)
        except ValueError:  # such as an unclosed bracket of an address of IPv6
            return None
        if parts.scheme in _WEB:
            return Target(address)
        if parts.scheme or parts.netloc or not parts.path:
            return None
        key = self.files.get(_locate(file, parts.path))
        if key is None:
            return None
        return Target(self.point(here, key) or link_pages(here, key))

    def resolve_citation(self, here: str, post: SitePost, address: str, words: str) -> Target | None:
        """Resolve a link of a post: a number leads to the document's card on this page, words to its own page."""
        path = _locate(post.path, address)
        places = ((use, (use.path, use.link, _locate(post.path, use.path))) for use in post.uses)
        use = next((use for use, named in places if path in named or address == use.link), None)
        if use is not None and words == f"[{use.number}]":
            return Target(f"#{name_card(use)}", about=use.title, number=use.number, paint=paint_use(use))
        return self.resolve(here, post.path, address)


def collect_links(library: Library) -> SiteLinks:
    """Collect the pages of all posts and documents of a site."""
    documents = {key: address_document(key) for key in library.documents}
    posts = {post.document_id: address_post(post.slug) for post in library.posts if post.document_id}
    linked = {use.link: use.document_id for post in library.posts for use in post.uses if use.link}
    files = linked | {document.path: key for key, document in library.documents.items()}
    return SiteLinks(
        documents | posts,
        files | {post.path: post.document_id or address_post(post.slug) for post in library.posts},
        {key: document.home for key, document in library.documents.items() if document.home},
    )


def name_card(use: Use) -> str:
    """Return the anchor of a document's card on the page of a post."""
    return f"source-{use.number}"


def paint_use(use: Use) -> str:
    """Return the CSS classes of a document's colour on the page of a post."""
    return name_paint(use.number - 1)


def _locate(file: str, address: str) -> str:
    """Return the path that a relative address means in a file, relative to the workspace."""
    return posixpath.normpath(posixpath.join(posixpath.dirname(file), unquote(address)))
