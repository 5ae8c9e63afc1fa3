"""Files of posts that people edit: what lies beside them is never out of date."""

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from backstory.writing.post_files import Post, draft_path, make_slug, place_post, remove_post

POST = Post(
    "w", "garden", "slug", "Title", datetime(2025, 3, 13, tzinfo=UTC), [], "The first draft.", "digest"
)
LATER = replace(POST, text="A later draft.")


def edit(path: Path) -> bytes:
    path.write_bytes(path.read_bytes() + b"\nBy a person.\n")
    return path.read_bytes()


def test_a_draft_beside_goes_when_the_edited_draft_is_the_latest_again(tmp_path: Path) -> None:
    path = tmp_path / "slug.md"
    assert place_post(path, POST)
    edited = edit(path)
    assert not place_post(path, LATER)
    assert b"A later draft." in draft_path(path).read_bytes()
    assert not place_post(path, POST)
    assert not draft_path(path).exists()
    assert path.read_bytes() == edited


def test_of_a_window_that_is_gone_only_what_a_person_edited_stays(tmp_path: Path) -> None:
    path = tmp_path / "slug.md"
    place_post(path, POST)
    edited = edit(path)
    place_post(path, LATER)
    assert not remove_post(path)
    assert path.read_bytes() == edited
    assert not draft_path(path).exists()


def test_a_slug_keeps_the_letters_of_the_conversation() -> None:
    day = datetime(2025, 3, 13, tzinfo=UTC)
    names = [
        "Repair-Café: Crew",
        "Straße & Søren",
        "Łódź_2024",
        "自治会 2024",
        "Соседи!",
        "Йога",
        "...",
        "木" * 200,
    ]
    slugs = [make_slug(name, "0123456789", day) for name in names]
    assert [slug.removeprefix("2025-03-13-").removesuffix("-01234567") for slug in slugs[:6]] == [
        "repair-cafe-crew", "strasse-soren", "lodz-2024", "自治会-2024", "соседи", "йога",
    ]  # fmt: skip
    assert slugs[6] == "2025-03-13-01234567"
    assert len(f"{slugs[7]}.md".encode()) < 255
