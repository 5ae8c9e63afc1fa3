"""The configuration from TOML: defaults, what it takes, and what it refuses by name."""

from pathlib import Path

import pytest

from backstory.adapters.rag_config import RAGConfig, VectorStoreConfig
from backstory.errors import SettingsError


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


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[rag]\nchunks = 1", "rag.chunks is no setting; there are enabled"),
        ("[rag]\nenabled = 1", "rag.enabled must be of type bool"),
        ('[rag]\nchunk_size = "large"', "rag.chunk_size must be of type int"),
        ("[rag]\nchunk_size = 8", "at least 16"),
        ("[rag]\nchunk_overlap = 1000", "below chunk_size"),
        ('[rag]\nvector_store = "chroma"', "rag.vector_store must be a table"),
        ('[rag.vector_store]\nprovider = "chroma"', "write backstory for the index in the base folder"),
        ('[rag.vector_store]\ncollection_name = "../up"', "names a folder"),
        ('[rag.vector_store]\nurl = "http://a"', "url has no use"),
        ('[rag.vector_store]\nprovider = "mcp"\nmcp_tool = "t"', "needs mcp_server"),
        (
            '[rag.vector_store]\nprovider = "mcp"\nmcp_tool = "t"\nmcp_server = "run"\napi_key = "key-of-mine"',
            "a command takes none",
        ),
        (
            '[rag.vector_store]\nprovider = "mcp"\nmcp_tool = "t"\nmcp_server = "run \'notes"',
            "no command line",
        ),
        ('[rag.vector_store]\nprovider = "mcp"\nmcp_tool = "t"\nmcp_server = " "', "needs mcp_server"),
        ("[rag]\nembedding_provider = 5", "must be of type str or dict"),
        ("[rag", "cannot be read as TOML"),
    ],
)
def test_what_is_no_configuration_is_refused_by_name(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(SettingsError, match=message) as raised:
        read(tmp_path, text)
    assert "config.toml" in str(raised.value)
    assert "key-of-mine" not in str(raised.value)


def test_a_file_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"absent\.toml"):
        RAGConfig.read(tmp_path / "absent.toml")
    assert VectorStoreConfig().provider == "backstory"
