"""The embedding benchmark, on few texts."""

from pathlib import Path

import pytest

from benchmarks import embedding


def test_library_and_bare_session_give_the_same_vectors(
    model_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedding, "TOKENS_OF_A_TURN", 300)
    figures = embedding.measure(
        words=12, runtime="onnxruntime", precision="float32", repeats=1, graphs=model_cache / "models"
    )
    assert figures["texts"] > 2
    assert figures["largest_difference"] < 1e-6
    assert figures["ratio"] > 0
    assert figures["least_cosine"] == 1


def test_whole_numbers_lose_little(model_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedding, "TOKENS_OF_A_TURN", 300)
    figures = embedding.measure(
        words=12, runtime="onnxruntime", precision="int8", repeats=1, graphs=model_cache / "models"
    )
    assert 0.98 < figures["least_cosine"] < 1
    assert figures["graph_megabytes"] < 100
