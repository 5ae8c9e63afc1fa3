"""The feeds of a site, and its sitemap: what programs read of it. All addresses in them are absolute."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Final
from xml.etree import ElementTree as ET

from backstory.interfaces.pages.report.page import drop_controls, encode_page
from backstory.interfaces.pages.site.addresses import ATOM, INDEX, JSON_FEED, address_post
from backstory.interfaces.pages.site.descriptions import describe_post
from backstory.interfaces.pages.site.library import SitePost
from backstory.interfaces.pages.site.links import SiteLinks
from backstory.interfaces.pages.site.markdown import Target, render_markdown

MOST_ENTRIES: Final = 50
"""Number of the latest posts in a feed."""

_ATOM: Final = "http://www.w3.org/2005/Atom"
_SITEMAP: Final = "http://www.sitemaps.org/schemas/sitemap/0.9"
_NO_XML: Final = re.compile("[\ud800-\udfff\ufffe\uffff]")


def write_atom(title: str, base: str, posts: Sequence[SitePost], links: SiteLinks) -> bytes:
    """Write an Atom feed (RFC 4287).

    Args:
        title: Title of the site.
        base: Address of the site, without a slash at its end.
        posts: The posts of the feed, the latest first.
        links: The pages of the site.
    """
    feed = ET.Element("feed", xmlns=_ATOM)
    _add(feed, "title", title)
    _add(feed, "id", f"{base}/")
    _add(
        feed,
        "updated",
        _write_moment(max(post.window.ended_at for post in posts)) if posts else "1970-01-01T00:00:00Z",
    )
    _add(feed, "link", rel="self", type="application/atom+xml", href=f"{base}/{ATOM}")
    _add(feed, "link", rel="alternate", type="text/html", href=f"{base}/{INDEX}")
    _add(_add(feed, "author"), "name", title)
    for post in posts:
        address = f"{base}/{address_post(post.slug)}"
        entry = _add(feed, "entry")
        _add(entry, "title", post.title)
        _add(entry, "id", address)
        _add(entry, "link", rel="alternate", type="text/html", href=address)
        _add(entry, "published", _write_moment(post.window.ended_at))
        _add(entry, "updated", _write_moment(post.window.ended_at))
        for tag in post.tags:
            _add(entry, "category", term=tag)
        _add(entry, "summary", describe_post(post))
        _add(entry, "content", render_absolute(post, base, links), type="html")
    return _encode(feed)


def write_json_feed(title: str, base: str, posts: Sequence[SitePost], links: SiteLinks) -> bytes:
    """Write a JSON feed (version 1.1) of the same posts; see :func:`write_atom`."""
    feed = {
        "version": "https://jsonfeed.org/version/1.1",
        "title": title,
        "home_page_url": f"{base}/{INDEX}",
        "feed_url": f"{base}/{JSON_FEED}",
        "items": [
            {
                "id": f"{base}/{address_post(post.slug)}",
                "url": f"{base}/{address_post(post.slug)}",
                "title": drop_controls(post.title),
                "summary": drop_controls(describe_post(post)),
                "content_html": render_absolute(post, base, links),
                "date_published": _write_moment(post.window.ended_at),
                "tags": [drop_controls(tag) for tag in post.tags],
                **({"language": post.window.language} if post.window.language else {}),
            }
            for post in posts
        ],
    }
    return encode_page(json.dumps(feed, ensure_ascii=False, indent=1) + "\n")


def write_sitemap(base: str, pages: Iterable[tuple[str, datetime | None]]) -> bytes:
    """Write a sitemap (sitemaps.org).

    Args:
        base: Address of the site, without a slash at its end.
        pages: Path of each page in the site, and when it was changed; None if that is not known.
    """
    sitemap = ET.Element("urlset", xmlns=_SITEMAP)
    for path, changed in pages:
        url = _add(sitemap, "url")
        _add(url, "loc", f"{base}/{path}")
        if changed is not None:
            _add(url, "lastmod", _write_moment(changed))
    return _encode(sitemap)


def render_absolute(post: SitePost, base: str, links: SiteLinks) -> str:
    """Render a post as HTML that may stand anywhere: its links are absolute, and citations are numbers in brackets."""

    def resolve(address: str, words: str) -> Target | None:
        here = address_post(post.slug)
        target = links.resolve_citation(here, post, address, words)
        if target is None:
            return None
        if target.number is not None:
            return Target(f"{base}/{here}{target.address}", about=target.about)
        inner = target.address.removeprefix("../")
        return target if inner == target.address else Target(f"{base}/{inner}")

    return str(render_markdown(post.text, resolve, title=post.title))


def _write_moment(moment: datetime) -> str:
    return moment.isoformat(timespec="seconds")


def _add(parent: ET.Element, name: str, text: str = "", **attributes: str) -> ET.Element:
    stated = {key: _clean(value) for key, value in attributes.items()}
    element = ET.SubElement(parent, name, stated)
    element.text = _clean(text) if text else None
    return element


def _clean(text: str) -> str:
    """Drop characters that XML cannot hold."""
    return _NO_XML.sub("\ufffd", drop_controls(text))


def _encode(root: ET.Element) -> bytes:
    ET.indent(root)
    content: bytes = ET.tostring(root, encoding="utf-8", xml_declaration=True)
    return content + b"\n"
