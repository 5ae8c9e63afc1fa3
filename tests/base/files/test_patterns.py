"""The shortcut of patterns changes no answer."""

from __future__ import annotations

import random

import pytest
from pathspec import GitIgnoreSpec

from backstory.base.files.patterns import Patterns, matches_glob

_PARTS = ("a", "b", "ab", ".a", "a.md", "B.md", "[ab]", "*", "?", "**", "a*", "*.md", "[!a]b", "ä", "a b")


def test_whatever_the_patterns_the_shortcut_agrees_with_comparing_each_of_them() -> None:
    """Whole answers of random patterns on random paths, with and without marks of folders and negations."""
    draw = random.Random(7)
    decided = 0
    for _ in range(1000):
        lines = tuple(_write_pattern(draw) for _ in range(draw.randint(0, 4)))
        path = "/".join(draw.choices(_PARTS[:6], k=draw.randint(1, 3))) + draw.choice(["", "", "/"])
        path = draw.choice(["", "", "./", "/"]) + path
        spec = GitIgnoreSpec.from_lines(lines)
        whole = spec.check_file(path)
        known = [
            line for line in lines if GitIgnoreSpec.from_lines([line]).check_file(path).index is not None
        ]
        found = Patterns(lines).find(path)
        decided += found is not None
        assert (None if found is None else found[0]) == whole.include, (lines, path)
        assert found is None or found[1] in known
    assert decided > 100


def _write_pattern(draw: random.Random) -> str:
    body = "/".join(draw.choices(_PARTS, k=draw.randint(1, 3)))
    pattern = draw.choice(["", "", "!", "/"]) + body + draw.choice(["", "", "/"])
    return draw.choice([pattern, pattern, pattern, "", "# a"])


@pytest.mark.parametrize(
    ("path", "pattern", "matches"),
    [
        ("", "", True),
        ("a", "", False),
        ("a.md", "*.md", True),
        ("a/b.md", "*.md", False),
        ("b.md", "**/*.md", True),
        ("a/b/c.md", "**/*.md", True),
        ("a/b/c.md", "a/**/c.md", True),
        ("a/c.md", "a/**/c.md", True),
        ("a/c.md", "b/**/c.md", False),
        ("a/b", "a/**", True),
        ("a", "a/**", False),
        ("", "**", False),
        ("a/b", "**/**", True),
        ("a/x/b/x", "**/x/**/x", True),
        ("a/x/b", "**/x/**/x", False),
    ],
)
def test_two_stars_stand_for_any_number_of_folders(path: str, pattern: str, matches: bool) -> None:
    assert matches_glob(path.split("/") if path else [], pattern.split("/") if pattern else []) is matches


def test_a_glob_takes_no_more_steps_than_names_times_its_parts() -> None:
    """A search that tries each number of folders for each ``**`` would never end here."""
    names = ["a"] * 300
    assert matches_glob(names, ["**", "a"] * 100)
    assert not matches_glob(names, [*["**", "a"] * 100, "b"])
    assert not matches_glob(names, [*["**"] * 200, "b"])


def test_patterns_and_paths_compare_however_their_letters_are_written() -> None:
    assert Patterns(("Caf\u00e9/",)).find("Cafe\u0301/") == (True, "Caf\u00e9/")
    assert Patterns(("Cafe\u0301/",)).find("Caf\u00e9/") == (True, "Caf\u00e9/")
    assert matches_glob(["Cafe\u0301.md"], ["Caf\u00e9.*"])
