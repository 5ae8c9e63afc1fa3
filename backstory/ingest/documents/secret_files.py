"""Files that hold keys or passwords, which are never read as documents: by their names, and by what they hold."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from backstory.base.files.patterns import Patterns

_NAMES: Final = (
    *(".env", ".env.*", "*.env", ".envrc", ".netrc", "_netrc", ".pgpass", ".my.cnf", ".npmrc", ".pypirc"),
    *(".git-credentials", ".htpasswd", ".vault-token", ".boto", ".s3cfg", ".dockercfg"),
    *("*.pem", "*.key", "*.p8", "*.p12", "*.pfx", "*.jks", "*.keystore", "*.ppk", "*.kdbx", "*.asc.key"),
    *("id_rsa", "id_dsa", "id_ecdsa", "id_ecdsa_sk", "id_ed25519", "id_ed25519_sk", "secring.*"),
    *("credentials", *(f"credentials.{end}" for end in ("json", "csv", "ini", "toml", "yaml", "yml", "xml"))),
    *("client_secret*.json", "service[-_]account*.json", "application_default_credentials.json"),
    *(f"secrets.{end}" for end in ("json", "toml", "yaml", "yml", "ini", "env")),
    *("*.tfstate", "*.tfstate.backup", "*.tfvars", ".ssh/", ".aws/", ".gnupg/", ".kube/", ".docker/"),
)
"""Names in small letters, as in ``.gitignore``."""


@dataclass(frozen=True)
class _Sign:
    """What gives a secret away in a file.

    Attributes:
        what: What it is, in words.
        mark: Bytes that every one holds, by which files without any are passed quickly.
        form: Its whole form.
    """

    what: str
    mark: bytes
    form: re.Pattern[bytes]


_SIGNS: Final = tuple(
    _Sign(what, mark, re.compile(form))
    for what, mark, form in (
        ("a private key", b"PRIVATE KEY", rb"-----BEGIN (?:[A-Z0-9]+ ){0,2}PRIVATE KEY(?: BLOCK)?-----"),
        ("a private key", b"PuTTY-User-Key-File-", rb"PuTTY-User-Key-File-[0-9]:"),
        # AWS ends the keys in its documentation with EXAMPLE.
        ("a key of AWS", b"AKIA", rb"(?<![A-Za-z0-9])AKIA(?![0-9A-Z]{9}EXAMPLE)[0-9A-Z]{16}(?![A-Za-z0-9])"),
        ("a key of AWS", b"ASIA", rb"(?<![A-Za-z0-9])ASIA(?![0-9A-Z]{9}EXAMPLE)[0-9A-Z]{16}(?![A-Za-z0-9])"),
        ("a token of GitHub", b"gh", rb"(?<![A-Za-z0-9])gh[pousr]_[A-Za-z0-9]{36,}"),
        ("a token of GitHub", b"github_pat_", rb"github_pat_[A-Za-z0-9_]{60,}"),
        ("a token of GitLab", b"glpat-", rb"(?<![A-Za-z0-9])glpat-[A-Za-z0-9_-]{20,}"),
        ("a token of Slack", b"xox", rb"(?<![A-Za-z0-9])xox[abeoprs]-[0-9A-Za-z-]{20,}"),
        ("a key of Google", b"AIza", rb"(?<![A-Za-z0-9_-])AIza[0-9A-Za-z_-]{35}(?![0-9A-Za-z_-])"),
        (
            "a key of OpenAI or Anthropic",
            b"sk-",
            rb"(?<![A-Za-z0-9_-])sk-(?:proj|svcacct|admin|ant)-[\w-]{40,}",
        ),
        ("a key of OpenAI", b"sk-", rb"(?<![A-Za-z0-9_-])sk-[A-Za-z0-9]{48}(?![A-Za-z0-9])"),
        ("a key of Stripe", b"k_live_", rb"(?<![A-Za-z0-9])[rs]k_live_[0-9A-Za-z]{20,}"),
        ("a token of npm", b"npm_", rb"(?<![A-Za-z0-9])npm_[A-Za-z0-9]{36}(?![A-Za-z0-9])"),
        ("a token of PyPI", b"pypi-", rb"pypi-AgE[A-Za-z0-9_-]{50,}"),
        ("a key of Azure storage", b"AccountKey=", rb"AccountKey=[A-Za-z0-9+/]{86}=="),
        (
            "a password of Telegram bots",
            b":AA",
            rb"(?<![0-9])[0-9]{8,10}:AA[A-Za-z0-9_-]{33}(?![A-Za-z0-9_-])",
        ),
    )
)


def list_secret_names(further: Sequence[str] = ()) -> Patterns:
    """Return the patterns of the names of files that hold secrets, in small letters.

    ``further``: patterns of the settings; one that begins with ``!`` lets a file be read.
    """
    return Patterns((*_NAMES, *(pattern.lower() for pattern in further)))


def explain_secret(content: bytes) -> str | None:
    """Return what secret a file seems to hold, and where, without quoting it; None if it seems to hold none."""
    found = [
        (match.start(), sign.what)
        for sign in _SIGNS
        if sign.mark in content and (match := sign.form.search(content)) is not None
    ]
    if not found:
        return None
    start, what = min(found)
    line = content.count(b"\n", 0, start) + 1
    return describe_secret(f"it holds {what} in line {line}")


def describe_secret(why: str) -> str:
    """Write the reason for which a file is not read."""
    return (
        f"looks like a secret: {why}; if it may be read, name it in `documents: {{secrets: ['!...']}}`, else keep it "
        "elsewhere"
    )
