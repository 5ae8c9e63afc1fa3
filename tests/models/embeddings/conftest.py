"""Embedders as the tests of this folder use them."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from backstory.models.embeddings.gemini import GeminiEmbedder
from backstory.models.embeddings.local.e5_pack import read_e5_pack
from backstory.models.embeddings.local.embedder import LocalEmbedder
from backstory.models.embeddings.local.granite_pack import read_granite_pack
from backstory.models.embeddings.openai import OpenAIEmbedder
from backstory.models.services.connection import ServiceAccess
from backstory.models.services.gemini import GeminiAccess
from backstory.settings.embedding import EmbeddingSettings
from tests.models.embeddings.local.tiny_e5 import checksum_of, write_tiny_e5
from tests.models.services.chat_server import ChatServer, run_chat_server
from tests.models.services.embedding_answers import embed
from tests.models.services.gemini_server import GeminiServer
from tests.models.services.instant_time import InstantTime


@pytest.fixture(scope="session")
def granite(model_cache: Path) -> LocalEmbedder:
    return LocalEmbedder(read_granite_pack(), graphs=model_cache / "models")


@pytest.fixture
def connect(server: GeminiServer, access: GeminiAccess) -> Callable[..., GeminiEmbedder]:
    """Make embedders that call the loopback server and never wait in real time."""

    def make(**settings: Any) -> GeminiEmbedder:
        defaults = {"provider": "gemini", "base_url": server.url, "dimension": 16}
        limits = {"texts_per_minute": 100_000, "tokens_per_minute": 10_000_000}
        return GeminiEmbedder(EmbeddingSettings.model_validate(defaults | limits | settings), access=access)

    return make


@pytest.fixture(scope="session")
def tiny_e5(tmp_path_factory: pytest.TempPathFactory) -> LocalEmbedder:
    """Make an embedder of a small pack in the format of the multilingual model."""
    folder = tmp_path_factory.mktemp("tiny_e5")
    write_tiny_e5(folder / "e5.bin")
    return LocalEmbedder(
        read_e5_pack(folder / "e5.bin", checksum=checksum_of(folder / "e5.bin")), graphs=folder
    )


@pytest.fixture
def vectors(monkeypatch: pytest.MonkeyPatch) -> Iterator[ChatServer]:
    """Run a loopback server that answers like an OpenAI-compatible service of embeddings."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with run_chat_server() as running:
        running.always = embed
        yield running


@pytest.fixture
def openai_access(tmp_path: Path, instant_time: InstantTime) -> ServiceAccess:
    return ServiceAccess(
        limits_file=tmp_path / "limits.sqlite", clock=instant_time.clock, wait=instant_time.wait
    )


@pytest.fixture
def connect_openai(vectors: ChatServer, openai_access: ServiceAccess) -> Callable[..., OpenAIEmbedder]:
    """Make embedders that call the loopback server and never wait in real time."""

    def make(*, access: ServiceAccess = openai_access, **settings: Any) -> OpenAIEmbedder:
        defaults = {"provider": "openai", "model": "tiny", "base_url": vectors.url, "dimension": 16}
        return OpenAIEmbedder(
            EmbeddingSettings.model_validate(defaults | settings),
            access=access,
        )

    return make
