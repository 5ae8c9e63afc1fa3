"""A workspace with documents and no chats, and its library."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from backstory.interfaces.library.library import Library
from tests.workspaces import POSTS, copy_made

SETTINGS = "embedding: {provider: hashing}\n"


def write_documents(root: Path, settings: str = SETTINGS) -> Path:
    """Write a workspace that holds six posts and no folder of chats."""
    (root / "posts").mkdir(parents=True)
    (root / "backstory.yaml").write_text(settings, encoding="utf-8")
    for file, (title, date, text) in POSTS.items():
        front = f"---\ntitle: {title}\ndate: {date}\ntags: [{title.split()[0].lower()}]\n---\n"
        (root / "posts" / file).write_text(f"{front}\n# {title}\n\n{text}\n", encoding="utf-8")
    return root


@pytest.fixture
def make_library(tmp_path: Path) -> Iterator[Callable[..., Library]]:
    """Give a function that makes a library of six posts, of which nothing is indexed yet."""
    made: list[Library] = []

    def make(settings: str = SETTINGS, name: str = "workspace") -> Library:
        made.append(Library.open(write_documents(tmp_path / name, settings)))
        return made[-1]

    yield make
    for library in made:
        library.close()


@pytest.fixture(scope="session")
def indexed_once(tmp_path_factory: pytest.TempPathFactory) -> Library:
    """A library whose six posts are indexed, which no test changes."""
    library = Library.open(write_documents(tmp_path_factory.mktemp("indexed-once") / "workspace"))
    assert library.index().success
    return library


@pytest.fixture
def library(indexed_once: Library, tmp_path: Path) -> Iterator[Library]:
    """A copy of it, which a test may change."""
    copied = copy_made(indexed_once.workspace.root, tmp_path / "workspace").root
    with Library.open(copied) as library:
        yield library
