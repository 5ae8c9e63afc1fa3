"""ZIP archives are read as folders of documents, within limits, and every member is told of."""

import io
import struct
import zipfile
from pathlib import Path

import pytest

from backstory.ingest import zips
from backstory.ingest.documents.files import DocumentFolder, FileHashes
from backstory.ingest.documents.reader import DocumentRead, read_listed_documents
from backstory.ingest.sources.listing import hash_listing
from backstory.settings.inputs import DocumentSettings
from tests.ingest.documents.document_files import make_writer, read_documents, states
from tests.workspaces import open_tables

DEFAULTS = DocumentSettings()
BELOW = "posts/pack.zip/"


def pack(members: dict[str, str | bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", method) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return packed.getvalue()


def read(tmp_path: Path, packed: bytes, settings: DocumentSettings = DEFAULTS) -> DocumentRead:
    return read_documents(make_writer(tmp_path)({"pack.zip": packed}), settings)


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_members_are_documents_with_the_path_in_the_archive(tmp_path: Path, method: int) -> None:
    found = read(tmp_path, pack({"a.md": "# A\n", "in/2024-05-01-b.md": "# B\n", "in/c.mp3": b"ID3"}, method))
    served = found.documents.select("uri", "title", "published_at").rows()
    assert [(uri, title, date and date.year) for uri, title, date in served] == [
        ("pack.zip/a.md", "A", None),
        ("pack.zip/in/2024-05-01-b.md", "B", 2024),
    ]
    assert {name: status for name, (status, _) in states(found, BELOW).items()} == {
        "a.md": "read", "in/2024-05-01-b.md": "read", "in/c.mp3": "unsupported",
    }  # fmt: skip


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_what_can_only_be_unpacked_whole_is_not_read(tmp_path: Path, method: int) -> None:
    [(status, reason)] = states(read(tmp_path, pack({"a.md": "# A\n"}, method)), BELOW).values()
    assert (status, "packed in an unusual way" in str(reason)) == ("failed", True)
    # Which files such a file of patterns leaves out is unknown.
    (tmp_path / "other").mkdir()
    with_patterns = pack({"a.md": "# A\n", ".backstoryignore": "b.md\n"}, method)
    found = states(read(tmp_path / "other", with_patterns), BELOW)
    assert {name: status for name, (status, _) in found.items()} == {"": "failed"}


def test_rules_hold_in_an_archive_as_in_a_folder(tmp_path: Path) -> None:
    members: dict[str, str | bytes] = {
        "a.md": "# A\n",
        ".hidden/b.md": "# B\n",
        "__MACOSX/._a.md": "junk",
        "keys/.env": "hush",
        "c.txt": "C",
        "inner.zip": pack({"e.md": "# E\n"}),
        "in/.backstoryignore": "d.md\n",
        "in/d.md": "# D\n",
    }
    found = states(read(tmp_path, pack(members), DocumentSettings(pattern="**/*.md")), BELOW)
    assert {name: status for name, (status, _) in found.items()} == {
        "a.md": "read",
        "inner.zip": "unsupported",
        **dict.fromkeys(members.keys() - {"a.md", "inner.zip"}, "ignored"),
    }
    assert found["in/d.md"][1] == "`d.md` in pack.zip/in/.backstoryignore leaves it out"
    assert str(found["keys/.env"][1]).startswith("looks like a secret")


def test_a_member_above_the_limit_of_memory_is_not_unpacked(tmp_path: Path) -> None:
    packed = pack({"large.md": b"a" * (17 << 20)}, zipfile.ZIP_STORED)
    [(status, reason)] = states(read(tmp_path, packed, DocumentSettings(read_megabytes=64)), BELOW).values()
    assert (status, "too many to read within the limit of memory" in str(reason)) == ("failed", True)


def many(count: int) -> bytes:
    return pack({f"{number}.md": "" for number in range(count)}, zipfile.ZIP_STORED)


def long_listing(*, by_second_end: bool) -> bytes:
    """Give an archive of one member whose end says that its listing is long, or a second end of 64 bits does."""
    packed = pack({"a.md": "# A\n"}, zipfile.ZIP_STORED)
    if not by_second_end:
        return packed[:-10] + struct.pack("<I", 1 << 24) + packed[-6:]
    second = struct.pack("<4sQ2H2L4Q", b"PK\6\6", 44, 45, 45, 0, 0, 1, 1, 1 << 24, 0)
    locator = struct.pack("<4sLQL", b"PK\6\7", 0, len(packed) - 22, 1)
    return packed[:-22] + second + locator + packed[-22:]


def overlapping() -> bytes:
    """Give an archive whose second member begins where its first one does."""
    packed = bytearray(pack({"a.md": b"a" * 400, "b.md": b"a" * 400}, zipfile.ZIP_STORED))
    second = packed.rfind(b"PK\x01\x02")
    packed[second + 20 : second + 28] = struct.pack("<2I", 1 << 16, 1 << 16)
    return bytes(packed)


@pytest.mark.parametrize(
    ("packed", "why"),
    [
        (many(11), "more than 10 members"),
        (pack({"a.md": bytes(900), "b.md": bytes(900)}, zipfile.ZIP_STORED), "have more than"),
        (overlapping(), "overlap"),
        (long_listing(by_second_end=False), "more than 10 members"),
        (long_listing(by_second_end=True), "more than 10 members"),
    ],
    ids=["many", "large", "overlapping", "long", "long in 64 bits"],
)
def test_an_archive_beyond_the_limits_is_one_failed_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, packed: bytes, why: str
) -> None:
    monkeypatch.setattr(zips, "MOST_MEMBERS", 10)
    monkeypatch.setattr(zips, "MOST_BYTES", 1500 if why == "have more than" else 1 << 30)
    [(status, reason)] = states(read(tmp_path, packed), BELOW).values()
    assert status == "failed"
    assert why in str(reason)
    assert str(reason).endswith("; until then Backstory reads nothing in it")


@pytest.mark.parametrize("place", range(0, 200, 7))
def test_a_damaged_archive_is_said_and_does_no_harm(tmp_path: Path, place: int) -> None:
    packed = bytearray(pack({"a.md": "# A\n\nText of some length, to be damaged.\n", "b.md": "# B\n"}))
    packed[place % len(packed)] ^= 0xFF
    found = read(tmp_path, bytes(packed))
    assert len(found.sources)
    served = found.documents.filter(found.documents["status"] == "ok")["text"]
    assert {text.strip() for text in served} <= {"# A\n\nText of some length, to be damaged.", "# B"}


def test_what_an_archive_held_is_kept_while_it_is_damaged(tmp_path: Path) -> None:
    write = make_writer(tmp_path)
    whole = pack({"a.md": "# A\n", "b.md": "# B\n"})
    first = read_documents(write({"pack.zip": whole}), DEFAULTS)
    cut = read_documents(
        write({"pack.zip": whole[:-9]}), DEFAULTS, first.documents, previous_reading=first.reading
    )
    assert cut.documents.equals(first.documents)
    without = read_documents(
        write({"pack.zip": pack({"a.md": "# A\n"})}), DEFAULTS, cut.documents, previous_reading=cut.reading
    )
    assert without.documents.select("uri", "status").rows() == [
        ("pack.zip/a.md", "ok"),
        ("pack.zip/b.md", "deleted"),
    ]


def test_one_archive_at_a_time_is_held_open(tmp_path: Path) -> None:
    packs = {f"{number}.zip": pack({"a.md": f"# {number}\n", "b.md": "# B\n"}) for number in range(5)}
    folder = make_writer(tmp_path)(packs)
    before = len(list(Path("/dev/fd").iterdir()))
    listing = DocumentFolder(folder).list_all()
    assert len(list(Path("/dev/fd").iterdir())) <= before + 1
    assert [file.read() for file in listing.files[::-1]][::2] == [b"# B\n"] * 5
    assert sorted(read_documents(folder, DEFAULTS).documents["title"]) == sorted([*"01234", *["B"] * 5])


@pytest.mark.parametrize("is_replaced", [False, True])
@pytest.mark.parametrize("is_read_before", [False, True])
def test_an_archive_that_changes_after_it_was_listed_is_read_by_the_next_run(
    tmp_path: Path, *, is_read_before: bool, is_replaced: bool
) -> None:
    write, catalog = make_writer(tmp_path), open_tables(tmp_path / "tables").catalog
    folder = write({"pack.zip": pack({"a.md": "# A\n"})})
    listing = DocumentFolder(folder).list_all()
    hashes = FileHashes(catalog)
    before = hash_listing(listing, hashes)
    if is_read_before:
        read_listed_documents(listing, DEFAULTS, hashes=hashes)
    if is_replaced:
        (folder / "pack.zip").rename(tmp_path / "earlier.zip")
    write({"pack.zip": pack({"a.md": "# Another\n"})})
    if not is_read_before:
        read = read_listed_documents(listing, DEFAULTS, hashes=hashes)
        assert states(read, BELOW)["a.md"][0] == "failed"
    now = hash_listing(DocumentFolder(folder).list_all(), FileHashes(catalog))
    assert hash_listing(listing, hashes) not in (before, now)
