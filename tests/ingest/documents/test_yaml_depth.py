"""How deep YAML is nested is known before it is parsed."""

import pytest

from backstory.ingest.documents.metadata.yaml_depth import find_depth


@pytest.mark.parametrize(
    ("text", "depth"),
    [
        ("", 0),
        ("a: 1\nb: 2", 1),
        ("a:\n  b:\n    c: 1\nd: 2", 3),
        ("a: [[1], [2, {b: 3}]]", 3),
        ("a: ]]]]\nb: [x]", 1),
        ("- - - a", 4),
        ("? - ? a", 4),
        ("title: see [[note]] and [[other]]", 2),
    ],
)
def test_levels_are_counted(text: str, depth: int) -> None:
    assert find_depth(text) == depth


def test_every_level_of_a_long_nesting_is_seen() -> None:
    assert find_depth("[" * 3000) == 3000
    assert find_depth("- " * 3000) == 3001
    assert find_depth("".join(" " * level + "a:\n" for level in range(100))) == 100
