"""The folder of a service with tenants, users and questions, for the benchmark of it."""

from __future__ import annotations

import random
import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from backstory.base.environment import SETTINGS_FILE
from backstory.interfaces.service.opening import ServiceFolder, open_service_folder
from benchmarks.library import make_question, write_documents

LARGE: Final = "large"
"""Name of the tenant with many documents."""

_POSTS: Final = Path(__file__).parent.parent / "examples" / "posts"
_LARGE_SETTINGS: Final = "embedding: {provider: hashing}\nchunks: {max_tokens: 72, overlap_tokens: 0}\n"
_WORD: Final = re.compile(r"[a-z]{5,}")
_WORDS_ASKED: Final = 3
_TOKENS_WITHOUT_PAUSE: Final = 25
"""Tokens of a user who does not think: each may send four requests a second."""


@dataclass(frozen=True)
class Tenant:
    """A tenant, and what its documents can be asked.

    Attributes:
        name: Its name.
        paragraphs: Long words of each paragraph of its documents; empty if its questions are made of numbers.
    """

    name: str
    paragraphs: Sequence[Sequence[str]]

    def make_question(self, draw: random.Random) -> str:
        """Make a question that has hardly been asked before: of words of one paragraph."""
        if not self.paragraphs:
            return make_question(draw.randrange(1 << 30))
        return f"What about {' '.join(draw.sample(draw.choice(self.paragraphs), _WORDS_ASKED))}?"


@dataclass(frozen=True)
class Member:
    """A user of the service.

    Attributes:
        tenant: The only tenant that they may enter, as editor.
        tokens: Their tokens.
    """

    tenant: str
    tokens: Sequence[str]


def write_service(
    root: Path, key_file: Path, *, tenants: int, chunks: int, users: int, is_closed: bool
) -> tuple[list[Tenant], list[Member]]:
    """Make a service whose tenants are indexed.

    Args:
        root: Folder of the service, absent.
        key_file: The key file.
        tenants: Tenants with the example's documents and the local model.
        chunks: Chunks of one more tenant, about, of the hashing embedder; 0 for none.
        users: Number of users, spread evenly over the tenants.
        is_closed: Whether users ask without a pause, and so have many tokens.

    Returns:
        The tenants and the users; the first user belongs to the first tenant.
    """
    opened = open_service_folder(root, key_file, makes=True)
    paragraphs = _list_paragraphs()
    made = [Tenant(f"team-{number}", paragraphs) for number in range(tenants)]
    for tenant in made:
        folder = opened.tenants.create(tenant.name)
        shutil.copytree(_POSTS, folder / "posts", dirs_exist_ok=True)
    if chunks:
        made.append(Tenant(LARGE, ()))
        folder = opened.tenants.create(LARGE)
        (folder / SETTINGS_FILE).write_text(_LARGE_SETTINGS, encoding="utf-8")
        write_documents(folder / "posts" / "many", chunks)
    known: Path | None = None
    for tenant in made:
        with opened.tenants.entering(tenant.name) as library:
            vectors = library.workspace.tables_dir / "cache.sqlite"
            if tenant.paragraphs and known is not None:  # which the model has computed for another tenant
                vectors.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(known, vectors)
            library.index()
        known = vectors if tenant.paragraphs else known
    opened.tenants.close()
    return made, [_add_user(opened, number, made, is_closed=is_closed) for number in range(users)]


def _add_user(opened: ServiceFolder, number: int, tenants: Sequence[Tenant], *, is_closed: bool) -> Member:
    name, tenant = f"user-{number}", tenants[number % len(tenants)].name
    opened.accounts.add_user(name)
    opened.accounts.grant(name, tenant, "editor")
    count = _TOKENS_WITHOUT_PAUSE if is_closed else 1
    return Member(tenant, [opened.accounts.make_token(name) for _ in range(count)])


def _list_paragraphs() -> list[list[str]]:
    """List the distinct long words of each paragraph of the example's posts that has enough of them."""
    texts = [path.read_text(encoding="utf-8") for path in sorted(_POSTS.glob("*.md"))]
    words = [sorted(set(_WORD.findall(part))) for text in texts for part in text.split("\n\n")]
    return [found for found in words if len(found) >= _WORDS_ASKED]
