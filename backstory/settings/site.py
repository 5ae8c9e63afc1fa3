"""Settings of what is published: the site, its feeds, and exports of the posts to other generators of sites."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import Field

from backstory.settings.groups import SettingsGroup, WebAddress


class SiteSettings(SettingsGroup):
    """The site of the posts, and their export. No run reads these settings."""

    base_url: WebAddress | None = None
    """Address where the site will stand, such as https://example.org/blog; null for no feeds and no sitemap."""
    title: str = ""
    """Title of the site and its feeds; empty names the conversation."""
    front_matter: Mapping[str, str | bool | int | None] = Field(default_factory=dict)
    """Front matter of exported posts: `pubDate: "{date}"`, `layout: post`; null leaves out what a format has."""
