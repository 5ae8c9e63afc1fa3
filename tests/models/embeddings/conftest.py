"""Embedders as the tests of this folder use them."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from backstory.models.embeddings.local_embedder import LocalEmbedder, open_pack
from backstory.models.embeddings.packs import read_e5_pack, read_granite_pack
from backstory.models.embeddings.service_embedder import GeminiEmbedder, ServiceEmbedder
from backstory.models.usage import CallMeter
from backstory.settings.embedding import EmbeddingSettings
from tests.models.embeddings.local.tiny_e5 import checksum_of, write_tiny_e5
from tests.models.services.chat_server import ChatServer, run_chat_server
from tests.models.services.embedding_answers import embed
from tests.models.services.gemini_server import GeminiServer


@pytest.fixture(scope="session")
def granite(model_cache: Path) -> LocalEmbedder:
    return open_pack(read_granite_pack(), model_cache / "models")


@pytest.fixture
def connect(
    server: GeminiServer, open_service: Callable[..., Any], api_key: str
) -> Callable[..., GeminiEmbedder]:
    """Make embedders that call the loopback server and never wait in real time."""

    def make(**settings: Any) -> GeminiEmbedder:
        defaults = {"provider": "gemini", "base_url": server.url, "dimension": 16}
        limits = {"texts_per_minute": 100_000, "tokens_per_minute": 10_000_000}
        given = EmbeddingSettings.model_validate(defaults | limits | settings)
        return GeminiEmbedder(given, open_service(given, key=SecretStr(api_key)))

    return make


@pytest.fixture(scope="session")
def tiny_e5(tmp_path_factory: pytest.TempPathFactory) -> LocalEmbedder:
    """Make an embedder of a small pack in the format of the multilingual model."""
    folder = tmp_path_factory.mktemp("tiny_e5")
    write_tiny_e5(folder / "e5.bin")
    return open_pack(read_e5_pack(folder / "e5.bin", checksum=checksum_of(folder / "e5.bin")), folder)


@pytest.fixture
def vectors(monkeypatch: pytest.MonkeyPatch) -> Iterator[ChatServer]:
    """Run a loopback server that answers like an OpenAI-compatible service of embeddings."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with run_chat_server() as running:
        running.always = embed
        yield running


@pytest.fixture
def connect_openai(vectors: ChatServer, open_service: Callable[..., Any]) -> Callable[..., ServiceEmbedder]:
    """Make embedders that call the loopback server and never wait in real time."""

    def make(*, meter: CallMeter = CallMeter(), **settings: Any) -> ServiceEmbedder:  # noqa: B008 - immutable
        defaults = {"provider": "openai", "model": "tiny", "base_url": vectors.url, "dimension": 16}
        given = EmbeddingSettings.model_validate(defaults | settings)
        return ServiceEmbedder(given, open_service(given, meter=meter))

    return make
