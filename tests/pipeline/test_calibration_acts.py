"""The constants that an index derives from its documents, through runs, edits and settings."""

from pathlib import Path

import pytest

from backstory.index.calibration import LEAST_DOCUMENTS, find_threshold
from backstory.index.snapshot import current_version, read_manifest
from backstory.operations.inspection.doctor import examine
from backstory.pipeline.workspace import open_workspace
from tests.world import Inputs, describe, first_inputs, run, write_inputs

THINGS = (
    "kettle",
    "ladder",
    "violin",
    "compass",
    "blanket",
    "lantern",
    "saddle",
    "anchor",
    "basket",
    "mirror",
    "rope",
)
PLACES = ("barn", "harbour", "attic", "orchard", "chapel", "mill", "quarry")


def write_many(count: int) -> Inputs:
    """Give the inputs of the small workspace with further posts about a few things and places."""
    inputs = first_inputs()
    for place in range(count):
        thing, other = THINGS[place % 11], THINGS[(place * 5 + 2) % 11]
        text = f"The {thing} in the {PLACES[place % 7]} was mended with {place} nails and hangs beside the {other}."
        inputs[f"posts/made-{place}.md"] = f"---\ntitle: {thing}\ndate: 2024-02-01\n---\n\n{text}\n"
    return inputs


def calibration_of(root: Path) -> str:
    [found] = [each for each in examine(root) if each.name == "calibration"]
    assert found.passed
    return found.detail


@pytest.fixture(scope="module")
def calibrated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("calibrated") / "workspace"
    write_inputs(root, write_many(LEAST_DOCUMENTS))
    run(root)
    return root


def test_the_manifest_and_the_doctor_tell_the_constants(calibrated: Path) -> None:
    workspace = open_workspace(calibrated)
    manifest = read_manifest(workspace.index / current_version(workspace.index))
    assert manifest.calibration.origin == "documents"
    assert workspace.calibration == manifest.calibration
    told = calibration_of(calibrated)
    assert f"temperature {manifest.calibration.temperature:g}" in told
    assert "derived from the documents by" in told


def test_edited_documents_give_what_a_first_run_over_them_gives(calibrated: Path, tmp_path: Path) -> None:
    edited = dict(write_many(LEAST_DOCUMENTS + 2))
    edited["posts/made-3.md"] = edited["posts/made-3.md"].replace("mended", "painted blue")
    del edited["posts/made-7.md"]
    write_inputs(tmp_path / "new", edited)
    run(tmp_path / "new")
    write_inputs(calibrated, edited)
    run(calibrated)
    assert describe(calibrated) == describe(tmp_path / "new")
    write_inputs(calibrated, write_many(0))
    run(calibrated)
    assert "too few to calibrate" in calibration_of(calibrated)


def test_a_setting_stands_before_what_was_derived(calibrated: Path) -> None:
    settings = (calibrated / "backstory.yaml").read_text(encoding="utf-8")
    (calibrated / "backstory.yaml").write_text(
        settings.replace("rag: {", "rag: {min_similarity: 0.5, "), "utf-8"
    )
    workspace = open_workspace(calibrated)
    derived = read_manifest(workspace.index / current_version(workspace.index)).calibration
    assert workspace.calibration == derived
    assert find_threshold(workspace.settings.rag, workspace.embedder, workspace.calibration) == 0.5
