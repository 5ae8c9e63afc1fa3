"""Where the links of an export lead: to its own posts and pages, or to the web."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from backstory.interfaces.pages.site.addresses import INDEX, name_file
from backstory.interfaces.pages.site.library import Library
from backstory.interfaces.pages.site.links import SiteLinks, collect_links

_UP: Final = "../../"


@dataclass(frozen=True)
class Places:
    """The addresses of posts and documents in an export.

    Attributes:
        links: The pages of the site, by which links of texts are understood.
        addresses: Address in the export by the page of the site; a page without one has no place in the export.
    """

    links: SiteLinks
    addresses: Mapping[str, str]

    def locate(self, file: str, address: str) -> str | None:
        """Return where a link of a file leads; None for nowhere."""
        target = self.links.resolve(INDEX, file, address)
        if target is None:
            return None
        return self.addresses.get(target.address, target.address if ":" in target.address else None)


def place_pages(library: Library) -> Places:
    """Give each post and each document without a home an address relative to any other page of a generated site."""
    links = collect_links(library)
    return Places(
        links,
        {
            f"posts/{name_file(post.slug)}.html": f"{_UP}posts/{name_file(post.slug)}/"
            for post in library.posts
        }
        | {
            page: f"{_UP}documents/{name_file(key)}/"
            for key, page in links.pages.items()
            if page.startswith("documents/") and key not in links.homes
        },
    )


def place_on_ghost(library: Library) -> Places:
    """Give each post and each document without a home its address in Ghost, which fills in its own beginning."""
    places = place_pages(library)
    addresses = {}
    for page, address in places.addresses.items():
        kind, _, name = address.removeprefix(_UP).rstrip("/").partition("/")
        beginning = "document-" if kind == "documents" else ""
        addresses[page] = f"__GHOST_URL__/{beginning}{_keep_in_ghost(name)}/"
    return Places(places.links, addresses)


def make_ghost_slug(key: str) -> str:
    """Make the slug of a post, a page or a tag, which the import of Ghost keeps as it is."""
    return _keep_in_ghost(name_file(key))


def place_on_site(library: Library, base: str | None) -> Places:
    """Give each post and each document without a home its page of the site in the web; none if it has no address."""
    places = place_pages(library)
    if base is None:
        return Places(places.links, {})
    return Places(places.links, {page: f"{base}/{page}" for page in places.addresses})


def _keep_in_ghost(name: str) -> str:
    """Write the name of a file as Ghost would: its import puts a hyphen for a dot, and links would lead nowhere."""
    return name.replace(".", "-")
