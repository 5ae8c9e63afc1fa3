"""Whatever lies in the folders of a workspace, a reader ends with a status for it, and reads what lies beside it."""

import encodings.cp437  # noqa: F401 - names in archives, which a user without rights cannot load
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

import polars as pl
import pytest

from backstory.ingest.chats.exports import read_exports
from backstory.settings.inputs import ConversationSettings, DocumentSettings
from tests.forms import BOTH_FORMS, Share
from tests.hostile.inputs import HOSTILE, LINES, Hostile
from tests.ingest.documents.document_files import read_documents
from tests.long_tests import LONG_TESTS

CHATS = ConversationSettings(read_seconds=1, read_megabytes=64)
POSTS = DocumentSettings(read_seconds=1, read_megabytes=64, ocr="off")
PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "reading.md"
TALK = LINES.replace("hello", "the good chat")


def load_inputs() -> dict[str, tuple[Hostile, ...]]:
    """Load all inputs, in the order of the page; packing them takes long, which the collection would wait for."""
    from tests.hostile.encoded_inputs import ENCODED
    from tests.hostile.export_inputs import EXPORTS
    from tests.hostile.packed_inputs import PACKED

    return {"first": HOSTILE, "encoded": ENCODED, "exports": EXPORTS, "packed": PACKED}


def choose(kind: str, folder: str) -> list[Hostile]:
    """Choose the inputs of a kind for a folder, without those that only a long run tries."""
    return [
        hostile
        for hostile in load_inputs()[kind]
        if hostile.folder == folder and (LONG_TESTS or not hostile.is_long)
    ]


def find_row(sources: pl.DataFrame, name: str) -> tuple[str, str]:
    row = sources.row(by_predicate=pl.col("source") == name, named=True)
    return row["status"], row["reason"] or ""


@pytest.fixture
def root(tmp_path: Path, share: Share) -> Path:
    """A workspace without inputs, of either form."""
    made = tmp_path / "workspace"
    made.mkdir()
    (made / "backstory.yaml").write_text("embedding: {provider: hashing}\n", encoding="utf-8")
    share(made)
    return made


def lay_out(inputs: Sequence[Hostile], folder: Path) -> None:
    """Write the inputs into a folder, beside a good file."""
    folder.mkdir()
    good = "good.txt" if folder.name == "chats" else "good.md"
    (folder / good).write_text(TALK if folder.name == "chats" else "Text", encoding="utf-8")
    for hostile in inputs:
        hostile.make(folder / hostile.name)


def list_wrong(inputs: Sequence[Hostile], sources: pl.DataFrame, texts: Mapping[str, str]) -> list[str]:
    """List the inputs without exactly one row, with another status or reason than theirs, or with another text."""
    rows: dict[str, list[tuple[str, str]]] = {}
    for source, status, reason in sources.select("source", "status", "reason").iter_rows():
        rows.setdefault(source, []).append((status, reason or ""))
    return [
        f"{hostile.source!r}: {rows.get(hostile.source)}"
        for hostile in inputs
        if [status for status, _ in rows.get(hostile.source, [])] != [hostile.status]
        or hostile.reason not in rows[hostile.source][0][1]
        or hostile.holds not in texts.get(hostile.source, "")
    ]


LONG = pytest.mark.long


@pytest.mark.parametrize(
    ("kind", "share"),
    [
        ("first", "one machine"),
        *(pytest.param(kind, "one machine", marks=LONG) for kind in ("encoded", "exports")),
        *(pytest.param(kind, "shared", marks=LONG) for kind in ("first", "encoded")),
    ],
    indirect=["share"],
)
def test_a_hostile_export_has_a_status_and_costs_only_itself(kind: str, root: Path) -> None:
    chats = choose(kind, "chats")
    lay_out(chats, root / "chats")

    read = read_exports(root / "chats", CHATS)

    assert list_wrong(chats, read.sources, {}) == []
    assert read.messages.filter(source="good.txt").height == 60
    could_not = pl.col("reason").fill_null("").str.contains("could not be read")
    broken = read.sources.filter(~pl.col("status").is_in(["read", "empty", "ignored"]) | could_not)
    assert {f"chats/{source}" for source in read.quarantine["source"]} == set(broken["source"])


@pytest.mark.parametrize(
    ("kind", "share"),
    [
        ("first", "one machine"),
        ("packed", "one machine"),
        pytest.param("encoded", "one machine", marks=LONG),
        *(pytest.param(kind, "shared", marks=LONG) for kind in ("first", "encoded")),
    ],
    indirect=["share"],
)
def test_a_hostile_document_has_a_status_and_costs_only_itself(kind: str, root: Path) -> None:
    posts = choose(kind, "posts")
    lay_out(posts, root / "posts")

    read = read_documents(root / "posts", POSTS)

    served = read.documents.filter(status="ok")
    texts = {f"posts/{uri}": text for uri, text in served.select("uri", "text").iter_rows()}
    assert list_wrong(posts, read.sources, texts) == []
    assert texts["posts/good.md"] == "Text"
    assert set(texts) == set(read.sources.filter(status="read")["source"])
    assert "root:" not in "".join(texts.values())


def test_the_page_on_reading_lists_what_is_tried_here() -> None:
    inputs = [hostile for kind in load_inputs().values() for hostile in kind]
    rows = [f"| `{hostile.folder}/` | {hostile.what} | `{hostile.status}` |" for hostile in inputs]
    assert len(rows) == len(set(rows))
    page = PAGE.read_text(encoding="utf-8").partition("| Lies in |")[2]
    assert [line for line in page.splitlines() if line.startswith("| `")] == rows


def test_folders_and_files_without_permission_are_named(
    open_folder: Path, shut: Callable[[Path, int], AbstractContextManager[None]]
) -> None:
    for name in ("chats/team/a.txt", "chats/b.txt", "posts/team/a.md", "posts/b.md"):
        path = open_folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(LINES, encoding="utf-8")

    with shut(open_folder / "chats" / "team", 0):
        read = read_exports(open_folder / "chats", CHATS)
    assert find_row(read.sources, "chats/team/")[0] == "failed"
    assert read.messages["source"].unique().to_list() == ["b.txt"]
    with shut(open_folder / "chats" / "b.txt", 0):
        read = read_exports(open_folder / "chats", CHATS)
    assert find_row(read.sources, "chats/b.txt")[0] == "failed"
    with shut(open_folder / "posts" / "team", 0):
        documents = read_documents(open_folder / "posts", POSTS)
    assert find_row(documents.sources, "posts/team/")[0] == "failed"
    with shut(open_folder / "posts" / "b.md", 0):
        documents = read_documents(open_folder / "posts", POSTS)
    assert find_row(documents.sources, "posts/b.md")[0] == "failed"


@BOTH_FORMS
def test_a_name_that_is_not_utf_8_is_named(root: Path) -> None:
    (root / "chats").mkdir()
    (root / "chats" / "caf\udce9.txt").write_text(LINES, encoding="utf-8")

    read = read_exports(root / "chats", CHATS)

    assert find_row(read.sources, "chats/caf\\xe9.txt") == (
        "failed",
        "the file name is not UTF-8; rename the file, or its folder",
    )


def test_one_null_byte_costs_nothing(tmp_path: Path) -> None:
    (tmp_path / "null.txt").write_text(LINES.replace("hello 7", "hello \0 7"), encoding="utf-8")
    read = read_exports(tmp_path, CHATS)
    assert len(read.messages) == 60
    assert read.messages["text"][7] == "hello \0 7"


def test_a_file_reads_the_same_in_both_processes(tmp_path: Path) -> None:
    text = "".join(
        f"[13.02.24, 10:{n % 60:02}:00] {'Ann' if n % 3 else 'Ben'}: hello {n}\n" for n in range(30_000)
    )
    small, large = tmp_path / "small", tmp_path / "large"
    for folder in (small, large):
        folder.mkdir()
    (small / "chat.txt").write_text(text[:900_000].rpartition("\n")[0] + "\n", encoding="utf-8")
    (large / "chat.txt").write_text(text, encoding="utf-8")

    here = read_exports(small, ConversationSettings()).messages
    there = read_exports(large, ConversationSettings()).messages

    assert there.head(len(here)).equals(here)
    assert (large / "chat.txt").stat().st_size > 1 << 20
