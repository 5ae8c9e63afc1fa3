"""Dates in the paths of files, and the slugs that are left."""

import pytest

from backstory.ingest.documents.dates import split_dated_name


@pytest.mark.parametrize(
    ("uri", "dated", "slug"),
    [
        ("2025-03-04-my-post.md", "2025-03-04", "my-post"),
        ("a/b/2025-03-04_My post.v2.md", "2025-03-04", "My post.v2"),
        ("2025-03-04.md", "2025-03-04", "2025-03-04"),
        ("2025-03-04-.md", "2025-03-04", "2025-03-04-"),
        ("my-post.md", None, "my-post"),
        ("2025-03-045.md", None, "2025-03-045"),
        ("2025-03-04-my-post/index.md", "2025-03-04", "my-post"),
        ("index.md", None, "index"),
        ("2025-02-30-my-post.md", "2025-02-30", "my-post"),
        ("20250304 My post.md", "2025-03-04", "20250304 My post"),
        ("202503041030 My post.md", "2025-03-04", "202503041030 My post"),
        ("2025_03_04_my-post.md", "2025-03-04", "2025_03_04_my-post"),
        ("My post 2025-03-04.md", "2025-03-04", "My post 2025-03-04"),
        ("My post (2025-03-04).md", "2025-03-04", "My post (2025-03-04)"),
        ("20251304-a.md", None, "20251304-a"),
        ("87650101-a.md", None, "87650101-a"),
        ("my-post-2025-02-30.md", None, "my-post-2025-02-30"),
        ("2025/03/04/my-post.md", "2025-03-04", "my-post"),
        ("blog/2025/03/04/deep/er/my-post.md", "2025-03-04", "my-post"),
        ("2025/03/04/my-post/index.md", "2025-03-04", "my-post"),
        ("2025-03-04/my-post.md", "2025-03-04", "my-post"),
        ("2024-01-01/2025/03/04/my-post.md", "2025-03-04", "my-post"),
        ("2025/03/04/2024-01-01-my-post.md", "2024-01-01", "my-post"),
        ("2025/13/04/my-post.md", None, "my-post"),
        ("2025/03/my-post.md", None, "my-post"),
    ],
)
def test_the_date_and_slug_of_a_file_name(uri: str, dated: str | None, slug: str) -> None:
    assert split_dated_name(uri) == (dated, slug)
