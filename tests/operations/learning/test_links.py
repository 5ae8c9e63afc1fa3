"""Which documents the links of a text lead to."""

import polars as pl
import pytest

from backstory.operations.labels import Places

PLACES = Places.of_documents(
    pl.DataFrame(
        [
            ("a", "guides/drip-line.md", "drip-line"),
            ("b", "2024-05-01-Night-Train.md", "2024-05-01-Night-Train"),
            ("c", "readme.md", "readme"),
            ("d", "north/blight.md", "blight"),
            ("e", "south/blight.md", "blight"),
            ("f", "wiki://moths.md", "moths"),
            ("g", "../written/2025-03-13-garden.md", "2025-03-13-garden"),
        ],
        schema=["document_id", "uri", "slug"],
        orient="row",
    ),
    "posts",
)


@pytest.mark.parametrize(
    ("text", "linked"),
    [
        ("[here](guides/drip-line.md)", ["a"]),
        ("[here](<./guides/drip%2Dline.md#frost> 'Title')", ["a"]),
        ("[here][1]\n\n[1]: /guides/drip-line/", ["a"]),
        ("<https://example.org/2024/05/01/night-train.html>", ["b"]),
        ("see https://example.org/night-train/index.html, or http://x.org/drip-line.", ["b", "a"]),
        ('<a href="guides/drip-line.md">here</a>', ["a"]),
        ("[ours](readme.md)", ["c"]),
        ("[theirs](https://example.org/readme.md)", []),
        ("[one of two](blight)", []),
        ("[its own file](north/blight.md) and [south](south/blight.md)", ["d", "e"]),
        ("[another source](../wiki:/moths.md)", ["f"]),
        ("[a written post](../written/2025-03-13-garden.md)", ["g"]),
        ("[mail](mailto:readme.md) [broken](http://[x) [none]() `[code](readme.md)`", []),
    ],
)
def test_a_link_leads_to_a_file_or_to_the_one_document_of_its_name(text: str, linked: list[str]) -> None:
    assert list(PLACES.find_linked(text, "posts/index.md")) == linked
