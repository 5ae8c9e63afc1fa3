"""The labelled questions of ``tests/data/answers`` hold what their README says, word for word where it quotes."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]
FOLDER = ROOT / "tests" / "data" / "answers"


def read(name: str) -> list[dict[str, Any]]:
    lines = (FOLDER / name).read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def flatten(entries: list[Any]) -> list[str]:
    return [each for entry in entries for each in (entry if isinstance(entry, list) else [entry])]


def join_words(text: str) -> str:
    return " ".join(text.split())


@pytest.mark.parametrize("of", ["routing", "examples"])
def test_no_question_is_in_both_halves(of: str) -> None:
    questions = [
        row["question"].casefold() for half in ("tune", "held") for row in read(f"{of}_{half}.jsonl")
    ]
    assert len(questions) == {"routing": 533, "examples": 351}[of]
    assert max(Counter(questions).values()) == 1


def test_the_first_150_questions_of_each_half_of_the_router_are_alike() -> None:
    for field in ("kind", "language"):
        tune, held = (
            Counter(row[field] for row in read(f"routing_{half}.jsonl")[:150]) for half in ("tune", "held")
        )
        assert all(abs(tune[value] - held[value]) <= 2 for value in tune | held)


def test_the_examples_have_as_many_questions_of_each_group_as_stated() -> None:
    rows = [row for half in ("tune", "held") for row in read(f"examples_{half}.jsonl")]
    assert Counter(row["group"] for row in rows) == {
        "lookup": 133, "unanswerable": 127, "list": 27, "parts": 44, "followup": 20,
    }  # fmt: skip
    assert sum(not part["quotes"] for row in rows for part in row.get("parts", ())) == 12
    assert all(row["answerable"] == (row["group"] != "unanswerable") for row in rows)
    assert all(bool(row.get("documents")) == row["answerable"] for row in rows)
    assert all(bool(row.get("history")) == (row["group"] == "followup") for row in rows)


def test_every_quote_stands_in_a_post_that_the_question_names_or_in_the_chat() -> None:
    posts = {
        path.name: join_words(path.read_text(encoding="utf-8"))
        for path in (ROOT / "examples/posts").iterdir()
    }
    [chat] = [join_words(path.read_text(encoding="utf-8")) for path in (ROOT / "examples/chats").iterdir()]
    for row in (row for half in ("tune", "held") for row in read(f"examples_{half}.jsonl")):
        named = [posts[uri] for uri in flatten(row.get("documents", []))]
        entries = row.get("quotes", []) + [quote for part in row.get("parts", []) for quote in part["quotes"]]
        for entry in entries:
            alternatives = flatten([entry])
            assert any(alternatives[0] in text for text in named), (row["question"], alternatives[0])
            assert all(any(quote in text for text in [*named, chat]) for quote in alternatives), row[
                "question"
            ]
        for item in row.get("items", []):
            assert any(item in text.casefold() for text in named), (row["question"], item)
