"""The training of the models of answers: a whole run over a small workspace."""

import json
from pathlib import Path

import pytest

from backstory.interfaces.library.library import Library
from backstory.writing.answers.answer_model import read_answer_model
from benchmarks import train_answers
from benchmarks.train_answers import main

THINGS = ("rope", "lamp", "tent", "stove", "map", "boat", "flute", "kite")


def test_a_run_measures_other_folds_and_writes_the_models_only_if_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("BACKSTORY_CACHE_DIR", str(tmp_path / "cache"))
    written = tmp_path / "answer_model.json"
    monkeypatch.setattr(train_answers, "MODEL_FILE", written)
    root = tmp_path / "things"
    (root / "posts").mkdir(parents=True)
    (root / "backstory.yaml").write_text("embedding: {provider: hashing}\n", encoding="utf-8")
    lines = []
    for number, thing in enumerate(THINGS, start=2):
        told = f"The {thing} cost {number} pounds."
        text = f"# The {thing}\n\nWe all like it. {told} It is blue.\n"
        (root / "posts" / f"{thing}.md").write_text(text, encoding="utf-8")
        asked = {"question": f"what did the {thing} cost", "kind": "lookup"}
        lines += [
            asked | {"answerable": True, "documents": [f"{thing}.md"], "quotes": [told]},
            asked | {"question": f"who sold us the {thing}", "answerable": False},
        ]
    questions = tmp_path / "things.jsonl"
    questions.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    with Library.open(root) as library:
        library.index()
    main([str(questions), "-w", str(root)])
    measured = json.loads(capsys.readouterr().out)
    assert (measured["parts"], measured["answerable"]) == (16, 8)
    assert measured["quote right, of answerable"] == 1.0
    assert measured["AUROC, answerable"] > 0.5
    refused = [bar["unanswerable refused"] for bar in measured["curve"]]
    assert refused == sorted(refused)
    assert not written.exists()
    main([str(questions), "-w", str(root), "--write"])
    model = read_answer_model(written)
    assert list(model.quote.weights) == list(read_answer_model().quote.weights)
    assert list(model.sentence.weights) == list(read_answer_model().sentence.weights)
