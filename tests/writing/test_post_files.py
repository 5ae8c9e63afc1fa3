"""Files of posts that people edit: what lies beside them is never out of date."""

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from backstory.writing.post_files import Post, draft_path, place_post, remove_post

POST = Post("w", "slug", "Title", datetime(2025, 3, 13, tzinfo=UTC), [], "The first draft.", "digest")
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
