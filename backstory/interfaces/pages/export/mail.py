"""The posts as a mailbox: one mail each, with the earlier posts that it cites as its references."""

from __future__ import annotations

from email.generator import BytesGenerator
from email.headerregistry import Address
from email.message import EmailMessage
from email.policy import EmailPolicy
from email.utils import format_datetime
from functools import partial
from io import BytesIO
from ipaddress import ip_address
from typing import Final
from urllib.parse import urlsplit

from backstory.base.errors import SettingsError
from backstory.interfaces.pages.export.places import place_on_site
from backstory.interfaces.pages.export.rewriting import rewrite_links
from backstory.interfaces.pages.report.page import drop_controls
from backstory.interfaces.pages.site.addresses import name_file
from backstory.interfaces.pages.site.library import Library, SitePost

MAILBOX: Final = "posts.mbox"

_NOWHERE: Final = "backstory.invalid"
_POLICY: Final = EmailPolicy(linesep="\n", utf8=False)


def write_mailbox(library: Library, title: str, base: str | None) -> bytes:
    """Write the posts as mails, the earliest first.

    Args:
        library: The posts.
        title: Who the mails are from.
        base: Address of the site, to which links lead; None for none, which leaves their words.

    Raises:
        SettingsError: No domain can be spelled as that of ``base``.
    """
    host = _find_host(base)
    places = place_on_site(library, base)
    file = BytesIO()
    for post in library.posts:
        mail = EmailMessage(_POLICY)
        mail["From"] = Address(_clean(title), "posts", host)
        mail["To"] = Address("", "posts", host)
        mail["Subject"] = _clean(post.title)
        mail["Date"] = format_datetime(post.window.ended_at)
        mail["Message-ID"] = _name(post, host)
        earlier = [one for use in post.cited if (one := library.written_as(use.document_id)) is not None]
        if earlier:
            mail["References"] = " ".join(_name(one, host) for one in earlier)
        if post.tags:
            mail["Keywords"] = _clean(", ".join(post.tags))
        text = rewrite_links(post.text, partial(places.locate, post.path))
        mail.set_content(text.encode("utf-8", "replace").decode(), subtype="markdown", cte="base64")
        file.write(f"From posts@{host} {post.window.ended_at:%a %b %d %H:%M:%S %Y}\n".encode())
        BytesGenerator(file, mangle_from_=True, policy=_POLICY).flatten(mail)
        file.write(b"\n")
    return file.getvalue()


def _name(post: SitePost, host: str) -> str:
    return f"<{name_file(post.slug)}@{host}>"


def _clean(text: str) -> str:
    """Return a text as one line of a header."""
    line = " ".join(drop_controls(text).split())
    return line.encode("utf-8", "replace").decode()


def _find_host(base: str | None) -> str:
    """Find the domain of the mails: that of the site as mail programs spell it; one that cannot exist for none."""
    host = urlsplit(base or "").hostname or _NOWHERE
    if _is_ip(host):
        return _NOWHERE
    try:
        return host.encode("idna").decode("ascii")
    except UnicodeError as error:
        raise SettingsError(
            f"site.base_url: {host} can be no domain of mails: {error}", code="invalid_address"
        ) from error


def _is_ip(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True
