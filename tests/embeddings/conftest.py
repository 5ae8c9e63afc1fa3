"""Embedders as the tests of this folder use them."""

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from backstory.embeddings.gemini import GeminiEmbedder
from backstory.embeddings.local.embedder import LocalEmbedder
from backstory.embeddings.local.granite_pack import read_granite_pack
from backstory.providers.gemini_client import GeminiAccess
from backstory.settings import EmbeddingSettings
from tests.providers.gemini_server import GeminiServer


@pytest.fixture(scope="session")
def granite(model_cache: Path) -> LocalEmbedder:
    return LocalEmbedder(read_granite_pack(), graphs=model_cache / "models")


@pytest.fixture(scope="session")
def openvino(granite: LocalEmbedder) -> Callable[[], LocalEmbedder]:
    """Make an embedder that runs the same graph by OpenVINO, where that is installed; it is no requirement."""

    @cache
    def make() -> LocalEmbedder:
        pytest.importorskip("openvino", reason="openvino is not installed")
        return LocalEmbedder(read_granite_pack(), graphs=granite.graph_path.parents[1], runtime="openvino")

    return make


@pytest.fixture
def connect(server: GeminiServer, access: GeminiAccess) -> Callable[..., GeminiEmbedder]:
    """Make embedders that call the loopback server and never wait in real time."""

    def make(**settings: Any) -> GeminiEmbedder:
        defaults = {"provider": "gemini", "base_url": server.url, "dimension": 16}
        limits = {"texts_per_minute": 100_000, "tokens_per_minute": 10_000_000}
        return GeminiEmbedder(EmbeddingSettings.model_validate(defaults | limits | settings), access=access)

    return make
