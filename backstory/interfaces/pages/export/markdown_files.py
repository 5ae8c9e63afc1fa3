"""The files of an export to a generator of sites: Markdown with front matter."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from functools import partial
from typing import Final

from backstory.base.errors import SettingsError
from backstory.interfaces.pages.export.formats import GENERATORS, Stated
from backstory.interfaces.pages.export.passages import write_passages
from backstory.interfaces.pages.export.places import place_pages
from backstory.interfaces.pages.export.rewriting import rewrite_links
from backstory.interfaces.pages.report.page import drop_controls, encode_page
from backstory.interfaces.pages.site.addresses import address_document, address_post, name_file
from backstory.interfaces.pages.site.descriptions import describe_post
from backstory.interfaces.pages.site.library import Library
from backstory.settings.models import SiteSettings

_DAY: Final = re.compile(r"\d{4}-\d\d-\d\d-")
_SHORTCODES: Final = {"{{<": "{{&lt;", "{{%": "{{&#37;"}
"""What Hugo would take for orders in a text, and what shows the same there."""

Value = str | datetime | tuple[str, ...]
_FIELD: Final = re.compile(r"\{(\w+)\}")
_PLAIN: Final = re.compile(r"(?!(?i:true|false|null)\Z)[A-Za-z][A-Za-z_]{3,}")
"""A name that needs no quotation marks; shorter ones may be numbers or truth values of YAML."""
_LINE_ENDS: Final = re.compile("[\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff]")


def write_markdown_files(
    library: Library, format_name: str, settings: SiteSettings
) -> Iterator[tuple[str, bytes]]:
    """Write the posts, and a page of passages for each cited document that lives nowhere in the web.

    Yields:
        Path in the export, and content.

    Raises:
        SettingsError: ``site.front_matter`` names a field that does not exist.
    """
    chosen = GENERATORS[format_name]
    places = place_pages(library)

    for post in library.posts:
        window = post.window
        fields: dict[str, Value | None] = {
            "title": post.title,
            "date": window.ended_at,
            "tags": post.tags,
            "slug": name_file(post.slug),
            "description": describe_post(post),
            "language": window.language,
            "conversation": library.conversation_names[window.conversation_id],
            "window": window.window_id,
            "writer": post.writer,
            "address": settings.base_url and f"{settings.base_url}/{address_post(post.slug)}",
        }
        text = _escape(rewrite_links(post.text, partial(places.locate, post.path)), format_name)
        stated = {**chosen.front_matter, **chosen.post_only}
        yield _write(chosen.posts, map_front_matter(stated, settings.front_matter), fields, text)
    for document in library.documents.values():
        if document.home is not None or not library.citing(document.document_id):
            continue
        about: dict[str, Value | None] = {
            **dict.fromkeys(("description", "language", "conversation", "window", "writer")),
            "title": document.title,
            "date": document.published_at,
            "tags": document.tags,
            "slug": name_file(document.document_id),
            "address": settings.base_url and f"{settings.base_url}/{address_document(document.document_id)}",
        }
        text = _escape(write_passages(library, document, places), format_name)
        stated = {**chosen.front_matter, **chosen.document_only}
        yield _write(chosen.documents, map_front_matter(stated, settings.front_matter), about, text)


def _write(
    path: str, stated: Mapping[str, Stated], fields: Mapping[str, Value | None], text: str
) -> tuple[str, bytes]:
    date, slug = fields["date"], fields["slug"]
    # Jekyll reads a file that begins with a day, as the slug of a post does; the day of a post is in its front matter.
    is_dated = _DAY.match(str(slug)) or not isinstance(date, datetime)
    content = f"{write_front_matter(stated, fields)}\n{text.strip()}\n"
    return path.format(slug=slug, dated=slug if is_dated else f"{date:%Y-%m-%d}-{slug}"), encode_page(content)


def _escape(text: str, format_name: str) -> str:
    if format_name == "hugo":
        for order, shown in _SHORTCODES.items():
            text = text.replace(order, shown)
    return text


def map_front_matter(stated: Mapping[str, Stated], changed: Mapping[str, Stated | None]) -> dict[str, Stated]:
    """Return the front matter of a format as the settings change it: null leaves a field out."""
    merged = {**stated, **changed}
    return {name: value for name, value in merged.items() if value is not None}


def write_front_matter(stated: Mapping[str, Stated], fields: Mapping[str, Value | None]) -> str:
    """Write front matter in YAML.

    Args:
        stated: Value of each field of the front matter. A text that is one field in braces has the type of it; one
            without a value is left out.
        fields: Values by the names that stand in braces.

    Raises:
        SettingsError: A name in braces is none of the fields.
    """
    lines = []
    for name, value in stated.items():
        filled = fill_in(name, value, fields) if isinstance(value, str) else json.dumps(value)
        if filled is not None:
            lines.append(f"{name if _PLAIN.fullmatch(name) else _quote(name)}: {filled}")
    return "\n".join(["---", *lines, "---", ""])


def fill_in(name: str, template: str, fields: Mapping[str, Value | None]) -> str | None:
    """Return one value of front matter in YAML; None if it is a field without a value."""
    for field in _FIELD.findall(template):
        if field not in fields:
            raise SettingsError(
                f"site.front_matter.{name}: there is no field {{{field}}}; the fields are {', '.join(sorted(fields))}",
                code="unknown_field",
            )
    alone = _FIELD.fullmatch(template)
    if alone is None:
        return _quote(_FIELD.sub(lambda found: _write_value(fields[found[1]]), template))
    value = fields[alone[1]]
    if value is None or isinstance(value, str):
        return _quote(value) if value else None
    if isinstance(value, datetime):
        return _write_value(value)
    return f"[{', '.join(map(_quote, value))}]"


def _write_value(value: Value | None) -> str:
    if isinstance(value, datetime):
        return value.isoformat(timespec="seconds")
    return ", ".join(value) if isinstance(value, tuple) else value or ""


def _quote(text: str) -> str:
    """Quote a text so that no YAML parser takes any of it for something else."""
    return json.dumps(_LINE_ENDS.sub(" ", drop_controls(text)), ensure_ascii=False)
