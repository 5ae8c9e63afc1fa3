"""Scores of posts against figures worked out by hand."""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from ruamel.yaml import YAML

from backstory.base.errors import InputError
from backstory.models.embeddings.protocol import Vectors
from backstory.pipeline.workspace import Workspace
from backstory.text.words import Words
from backstory.writing.citations import LinkedText
from backstory.writing.material import ContextMaterial, WindowMaterial, WindowMessage
from benchmarks.posts.__main__ import measure
from benchmarks.posts.claims import Source, find_claims, list_sources, support_claims
from benchmarks.posts.demo import LABELS
from benchmarks.posts.scoring import (
    POST_METRICS,
    Repetition,
    TopicLabels,
    score_citations,
    score_claims,
    score_names,
    score_sections,
    score_topics,
)
from tests.errors import raises
from tests.interfaces.cli.test_evaluation import labelled_set

WORDS = Words("english")
NINE = datetime(2025, 3, 13, 9, tzinfo=UTC)
SAID = ("Our drip irrigation line broke at the elbow.", "My backup disk is clicking again.")
WINDOW = WindowMaterial(
    "w", "c", "2025-03-13", NINE, NINE, "en",
    tuple(WindowMessage(str(place), NINE, "x", text) for place, text in enumerate(SAID)),
)  # fmt: skip
SOURCES = list_sources(WINDOW, ContextMaterial("no_hits"), WORDS)


def alike(texts: list[str]) -> Vectors:
    """Embed texts so that only those about a noisy drive and those about a disk are alike."""
    return np.array(
        [[1, 0] if "disk" in text or "noisy" in text else [0, 1] for text in texts], dtype=np.float32
    )


def find_support(*claims: str) -> list[Source | None]:
    return support_claims(claims, SOURCES, WORDS, alike)


def test_claims_are_the_sentences_without_markup() -> None:
    lines = (
        "*3 messages by two people.*", "## Heading", "- **ab12** 09:00: One thing. Another thing!", "> “Quoted [1]”",
        "> Earlier: Title [2]",
    )  # fmt: skip
    assert find_claims("\n\n".join(lines)) == ["One thing.", "Another thing!", "“Quoted ”", "Earlier: Title"]


def test_a_claim_is_supported_by_words_or_by_meaning() -> None:
    said, meant, invented = find_support(
        "The drip irrigation line broke", "A noisy backup drive whirrs", "Nobody drained the pipe in Lisbon"
    )
    assert said is not None
    assert said.message == 0
    assert meant is not None
    assert meant.message == 1
    assert invented is None
    assert score_claims([said, meant, invented]) == pytest.approx(2 / 3)
    assert find_support("too short") == []


def test_topics_are_said_by_supported_claims_and_linked_by_citations() -> None:
    labels = TopicLabels(["water", "disk"], {"a": frozenset({"water", "pipes"}), "b": frozenset({"disk"})})
    linked = LinkedText("", ("a",), 1)
    assert list(score_topics(find_support(SAID[1]), linked, labels)) == pytest.approx([1 / 2, 2 / 3])
    assert score_citations(linked) == 0.5
    assert score_citations(LinkedText("", (), 0)) == 1.0


def test_sections_are_right_where_each_holds_one_topic() -> None:
    said = ["water", "water", "disk", "disk", ""]
    assert score_sections([[0, 1, 4], [2, 3]], said) == pytest.approx(1)
    assert score_sections([[0, 1]], said) == pytest.approx(1)  # the others are one more section
    assert score_sections([[0, 2], [1, 3]], said) == pytest.approx(0)
    assert score_sections([[0], [1], [2], [3]], said) == pytest.approx(2 / 3)


def test_no_message_of_the_demo_has_two_topics() -> None:
    for topics in YAML(typ="safe").load(LABELS).values():
        spans = sorted(tuple(span.partition("-")[::2]) for held in topics.values() for span in held.split())
        ends = [last or first for first, last in spans]
        assert all(end < following for end, (following, _) in zip(ends, spans[1:], strict=False)), spans


def test_headings_are_compared_with_the_names_of_their_topics() -> None:
    labels = TopicLabels(
        ["water", "water", "disk", ""],
        {},
        {"water": ["The broken water pipe"], "disk": ["Piano", "Noisy disks"]},
    )
    words, rouge = score_names([("A water pipe", [0, 1, 2]), ("Disk", [2]), ("Nothing", [3])], labels, WORDS)
    assert words == pytest.approx((4 / 5 + 2 / 3) / 2)
    assert rouge == pytest.approx((4 / 7 + 0) / 2)
    assert score_names([], labels, WORDS) == (0.0, 0.0)


def test_only_runs_of_documents_from_before_the_window_are_repeated() -> None:
    claims = ["one two three four five six"]
    documents = pl.DataFrame(
        {
            "text": ["one two three four five", "two three four five six"],
            "published_at": [None, NINE.replace(year=2026)],
        },
        schema_overrides={"published_at": pl.Datetime("us", "UTC")},
    )
    repetition = Repetition([claims], documents)
    assert repetition.score(claims, NINE) == 0.5
    assert repetition.score(claims, NINE.replace(year=2027)) == 1.0
    assert repetition.score([], NINE) == 0.0


def test_the_contexts_of_a_labelled_set_are_compared(
    tmp_path: Path,
    make_workspace: Callable[..., Workspace],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("BACKSTORY_CACHE_DIR", str(tmp_path / "cache"))
    folder = labelled_set(tmp_path / "set")
    with raises(InputError, "absent_file", folder / "msg_topics.parquet"):
        measure([str(folder)])
    pl.DataFrame({"window_id": ["set-n2-001"] * 2, "msg_no": [0, 1], "topic": ["t1", "t2"]}).write_parquet(
        folder / "msg_topics.parquet"
    )
    root = str(make_workspace("embedding: {provider: hashing}\n").root)
    measure([str(folder), "-w", root, "--json"])
    scores = json.loads(capsys.readouterr().out)["scores"]
    means = {(row["method"], row["metric"]): row["mean"] for row in scores}
    assert {metric for _, metric in means} == set(POST_METRICS)
    assert means["context of backstory", "topics said"] == 1.0
    assert means["context of backstory", "topics linked"] == 1.0
    assert means["no context", "topics linked"] == 0.0
    assert means["no context", "supported"] == 1.0
    measure([str(folder), "-w", root, "--windows", "1", "--group", "set-n2"])
    assert "set-n2: 1 window" in capsys.readouterr().out
    with raises(InputError, "unknown_group"):
        measure([str(folder), "-w", root, "--group", "other"])
