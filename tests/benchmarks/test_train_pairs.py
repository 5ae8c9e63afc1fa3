"""The training of the model of pairs: its fit, its measures, and a whole run over two small sets."""

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from backstory.operations.scoring import area_under_curve
from backstory.retrieval.evidence.logistic import fit_logistic
from backstory.retrieval.evidence.pair_model import PairModel, read_pair_model
from benchmarks import train_pairs
from benchmarks.train_pairs import calibration_error, main


def test_the_fit_finds_the_constants_that_made_the_data() -> None:
    source = np.random.default_rng(3)
    features = source.standard_normal((20_000, 2))
    odds = -2.0 + features @ np.array([1.5, -0.5])
    positive = (source.random(20_000) < 1 / (1 + np.exp(-odds))).astype(np.float64)
    assert fit_logistic(features, positive, np.ones(20_000)) == pytest.approx([-2.0, 1.5, -0.5], abs=0.15)


def test_separable_data_has_a_finite_fit() -> None:
    rows = np.array([[-1.0], [-0.8], [0.8], [1.0]])
    constants = fit_logistic(rows, np.array([0.0, 0.0, 1.0, 1.0]), np.ones(4))
    assert np.isfinite(constants).all()
    assert constants[1] > 0


def test_the_area_counts_pairs_in_the_right_order_and_ties_half() -> None:
    sufficient = np.array([0.0, 0.0, 1.0, 1.0])
    assert area_under_curve(np.array([0.1, 0.2, 0.3, 0.4]), sufficient) == 1.0
    assert area_under_curve(np.array([0.1, 0.3, 0.3, 0.2]), sufficient) == pytest.approx(2.5 / 4)
    assert area_under_curve(np.array([0.1, 0.2]), np.zeros(2)) is None


def test_the_calibration_error_is_the_weighted_gap_of_the_bins() -> None:
    confidence, sufficient = np.array([0.1, 0.1, 0.9, 0.9]), np.array([0.0, 0.0, 1.0, 0.0])
    assert calibration_error(confidence, sufficient, np.ones(4)) == pytest.approx((0.2 + 0.8) / 4)


def write_set(folder: Path) -> Path:
    folder.mkdir()
    ids = [f"{folder.name}-{i}" for i in range(4)]
    moment = pl.Series(["2025-03-13T09:00:00Z"]).str.to_datetime(time_unit="us", time_zone="UTC")[0]
    topics = ["drip irrigation line", "clicking backup disk", "moths around lamp", "night train seats"]
    times = {"date": pl.Datetime("us", "UTC"), "tags": pl.List(pl.String)}
    pl.DataFrame(
        {
            "doc_id": ids, "title": topics, "text": topics,
            "date": [None] * 4, "tags": [[]] * 4,
        },
        schema_overrides=times,
    ).write_parquet(folder / "docs.parquet")  # fmt: skip
    windows = [f"w{i}" for i in range(4)]
    pl.DataFrame(
        {
            "window_id": windows, "msg_no": [0] * 4, "timestamp": [moment] * 4, "author": ["x"] * 4,
            "message": [f"have you seen the {topic}" for topic in topics],
        }
    ).write_parquet(folder / "windows.parquet")  # fmt: skip
    pl.DataFrame({"window_id": windows, "doc_id": ids, "rel": [1] * 4, "topic": topics}).write_parquet(
        folder / "qrels.parquet"
    )
    return folder


def test_a_run_measures_every_set_and_writes_the_model_only_if_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("BACKSTORY_CACHE_DIR", str(tmp_path / "cache"))
    written = tmp_path / "pair_model.json"
    monkeypatch.setattr(train_pairs, "MODEL_FILE", written)
    folders = [str(write_set(tmp_path / name)) for name in ("first", "second", "third")]
    asked = [*folders[:2], "--unrelated", folders[2], "--embedder", "hashing", "--per-group", "3"]
    main(asked)
    shown = capsys.readouterr().out
    assert all(name in shown for name in ("first", "second", "third", "all sets", "other sets", "shipped"))
    assert not written.exists()
    main([*asked, "--write"])
    model = read_pair_model(written)
    assert isinstance(model, PairModel)
    assert model.parts.fitted_on == ("first", "second")
    assert list(model.parts.weights) == list(read_pair_model().parts.weights)
    assert model.single == read_pair_model().single
