"""What each command gives to a script, and that it says something to a person: one table of calls."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.interfaces.cli.conftest import POSTS
from tests.interfaces.cli.invocation import run

SLUGS = set(POSTS)


def of_each(*names: str) -> Callable[[list[dict[str, Any]]], list[tuple[Any, ...]]]:
    return lambda rows: [tuple(row[name] for name in names) for row in rows]


CALLS: list[tuple[str, Callable[[Any], Any], Any]] = [
    ("windows", of_each("status", "kept_count", "message_count"), [("ok", 2, 2)]),
    ("context latest", lambda found: {row["slug"] for row in found["documents"]}, SLUGS),
    ("explain latest disk", lambda found: [row["kept"] for row in found["documents"]], [True]),
    (
        "explain latest",
        lambda found: {row["uri"] for row in found["documents"]},
        {"disk.md", "irrigation.md"},
    ),
    ("status", lambda found: (found["tables"]["messages"]["rows"], bool(found["index_version"])), (2, True)),
    ("status --runs", of_each("by", "status"), [("run_pipeline", "succeeded")]),
    ("documents", of_each("uri", "state"), [("disk.md", "read"), ("irrigation.md", "read")]),
    ("check", lambda found: (found["complete"], found["messages"], found["people"]), (True, 2, 2)),
    ("doctor", lambda found: {row["passed"] for row in found}, {True}),
    ("doctor --alerts", lambda found: found, {}),
    ("doctor --prune-caches", lambda found: found["pruned"]["vectors"], 0),
    ("search clicking", lambda found: (found["hits"][0]["slug"], found["engine"]), ("disk", "exact")),
    ("grep backup", lambda found: (found["count"], found["documents"]), (1, 1)),
    ("show disk", lambda found: found["text"].split()[:2], ["#", "Disk"]),
    ("ask thanks", lambda found: found["kind"], "casual"),
    ("summarize disk", lambda found: (found["status"], found["document"]["slug"]), ("success", "disk")),
    ("run", lambda found: (found["finished"], found["failures"]), (True, [])),
    ("run --estimate", lambda found: {kind["tokens"] for kind in found["embedding"]}, {0}),
    ("add", lambda found: (found["unchanged"], found["failed"]), (2, 0)),
    ("learn --undo", lambda found: found["removed"], False),
    ("forget --document disk", lambda found: found["left"], {}),
]


@pytest.mark.parametrize(("words", "read", "expected"), CALLS)
def test_a_script_gets_values_and_a_person_words(
    made: Path, words: str, read: Callable[[Any], Any], expected: Any
) -> None:
    given = run(*words.split(), "--json", "-w", str(made))
    assert given.exit_code == 0, given.output
    assert read(json.loads(given.stdout)) == expected
    if "forget" not in words:  # which happens once
        shown = run(*words.split(), "-w", str(made))
        assert (shown.exit_code, bool(shown.output.strip())) == (0, True)
