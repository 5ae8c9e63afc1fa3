"""The configuration from TOML: defaults, what it takes, and what it refuses by name."""

from pathlib import Path

import pytest

from backstory.base.errors import SettingsError
from backstory.interfaces.adapters.rag_config import RAGConfig, VectorStoreConfig
from backstory.interfaces.adapters.rag_workspace import open_collection
from backstory.settings.embedding import EmbeddingSettings
from tests.errors import raises


def read(folder: Path, text: str) -> RAGConfig:
    file = folder / "config.toml"
    file.write_text(text, encoding="utf-8")
    return RAGConfig.read(file)


def test_a_configuration_is_read_from_toml(tmp_path: Path) -> None:
    assert read(tmp_path, "[other]\nenabled = true\n") == RAGConfig()
    assert not RAGConfig().enabled
    config = read(
        tmp_path,
        "[rag]\nenabled = true\nchunk_size = 500\nchunk_overlap = 50\n"
        'embedding_provider = {provider = "openai", model = "m"}\n'
        '[rag.vector_store]\nprovider = "mcp"\nurl = "https://search.example/mcp"\napi_key = "secret"\n'
        'mcp_tool = "query_documents"\n',
    )
    assert (config.enabled, config.chunk_size, config.chunk_overlap) == (True, 500, 50)
    assert config.embedding_provider == {"provider": "openai", "model": "m"}
    assert config.vector_store.server == "https://search.example/mcp"
    assert config.vector_store.api_key == "secret"
    assert "secret" not in f"{config} {config!r}"


def test_names_of_the_original_configuration_stand_for_ours_and_a_warning_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    config = read(
        tmp_path,
        '[rag]\nenabled = true\nembedding_provider = "mock"\n'
        '[rag.vector_store]\nprovider = "chroma"\nurl = "http://localhost:8000"\ncollection_name = "notes"\n',
    )
    assert (config.embedding_provider, config.vector_store.provider) == ("hashing", "backstory")
    assert "chroma stands for backstory" in caplog.text
    assert "mock stands for hashing" in caplog.text


@pytest.mark.parametrize(
    ("text", "code", "setting"),
    [
        ("[rag]\nchunks = 1", "unknown_setting", "rag.chunks"),
        ("[rag]\nenabled = 1", "wrong_type", "rag.enabled"),
        ('[rag]\nchunk_size = "large"', "wrong_type", "rag.chunk_size"),
        ("[rag]\nchunk_size = 8", "out_of_range", "chunk_size"),
        ("[rag]\nchunk_overlap = 1000", "out_of_range", "chunk_overlap"),
        ('[rag]\nvector_store = "chroma"', "wrong_type", "rag.vector_store"),
        ('[rag.vector_store]\nprovider = "faiss"', "unknown_value", "vector_store.provider"),
        ('[rag]\nchunker = "lines"', "unknown_value", "chunker"),
        ('[rag.vector_store]\ncollection_name = "../up"', "invalid_name", "vector_store.collection_name"),
        ('[rag.vector_store]\nurl = "http://a"', "unused_setting", "vector_store.url"),
        ('[rag.vector_store]\nprovider = "mcp"\nmcp_tool = "t"', "absent_setting", "mcp_server"),
        (
            '[rag.vector_store]\nprovider = "mcp"\nmcp_tool = "t"\nmcp_server = "run"\napi_key = "key-of-mine"',
            "unused_setting",
            "vector_store.api_key",
        ),
        (
            '[rag.vector_store]\nprovider = "mcp"\nmcp_tool = "t"\nmcp_server = "run \'notes"',
            "invalid_command",
            "mcp_server",
        ),
        (
            '[rag.vector_store]\nprovider = "mcp"\nmcp_tool = "t"\nmcp_server = " "',
            "absent_setting",
            "mcp_server",
        ),
        ("[rag]\nembedding_provider = 5", "wrong_type", "rag.embedding_provider"),
        ("[rag", "invalid_toml", None),
    ],
)
def test_what_is_no_configuration_is_refused_by_name(
    tmp_path: Path, text: str, code: str, setting: str | None
) -> None:
    with raises(SettingsError, code, tmp_path / "config.toml", setting) as raised:
        read(tmp_path, text)
    assert "config.toml" in str(raised.value)
    assert "key-of-mine" not in str(raised.value)


def test_a_file_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with raises(SettingsError, "invalid_toml", tmp_path / "absent.toml"):
        RAGConfig.read(tmp_path / "absent.toml")
    assert VectorStoreConfig().provider == "backstory"


def test_a_table_for_the_embedding_may_hold_the_address_of_its_service(tmp_path: Path) -> None:
    address = "http://127.0.0.1:11434/v1"
    given = {"provider": "openai", "model": "bge-m3", "base_url": address, "threads": 2}
    settings = open_collection(RAGConfig(enabled=True, embedding_provider=given), tmp_path).workspace.settings
    assert settings.embedding == EmbeddingSettings.model_validate(given)
    assert settings.services["openai"].base_url == address
