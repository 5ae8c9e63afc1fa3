"""The writer that the settings name."""

from __future__ import annotations

from backstory.settings import WriterSettings
from backstory.writing.digest_writer import DigestWriter
from backstory.writing.draft import Writer


def make_writer(settings: WriterSettings) -> Writer | None:
    """Make the writer of the settings; None if no posts are written."""
    return DigestWriter() if settings.provider == "digest" else None
