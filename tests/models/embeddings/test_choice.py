import subprocess
import sys
from pathlib import Path
from typing import Literal

import pytest
from onnxruntime import InferenceSession

from backstory.base.errors import InputError, ModelSetupError, SettingsError
from backstory.interfaces.original.embedders import resolve_embedder
from backstory.models.choice import make_embedder
from backstory.models.embeddings.hashing import HashingEmbedder
from backstory.models.embeddings.local_embedder import LocalEmbedder
from backstory.models.embeddings.packs import read_e5_pack
from backstory.settings.embedding import EmbeddingSettings
from tests.errors import raises, refuses
from tests.models.embeddings.local.tiny_e5 import checksum_of


def test_the_settings_choose_the_provider() -> None:
    gemini = make_embedder(EmbeddingSettings(provider="gemini", dimension=1536))

    assert make_embedder(EmbeddingSettings()).id.startswith("local:granite-embedding-30m-english:")
    assert gemini.id == "gemini:gemini-embedding-001:1536"
    assert gemini.default_min_similarity == 0.7
    assert gemini.workers == 4
    assert make_embedder(EmbeddingSettings(provider="hashing")).id == HashingEmbedder.id


def test_a_model_knows_the_languages_that_it_was_made_for_unless_the_settings_say_otherwise() -> None:
    assert make_embedder(EmbeddingSettings()).languages == ("en",)
    for provider in ("gemini", "hashing"):
        assert make_embedder(EmbeddingSettings(provider=provider)).languages is None
    for provider in ("local", "gemini", "hashing"):
        stated = EmbeddingSettings(provider=provider, languages=("en", "de"))
        assert make_embedder(stated).languages == ("en", "de")


@pytest.mark.parametrize("languages", [[], ["en", "german"], ["DE"]])
def test_what_names_no_language_is_refused(languages: list[str]) -> None:
    with refuses("unknown_language"):
        EmbeddingSettings.model_validate({"languages": languages})


@pytest.mark.parametrize("runtime", ["onnxruntime", "cuda"])
def test_the_settings_choose_the_runtime(
    runtime: Literal["onnxruntime", "cuda"], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def note(_: Path, runtime: str) -> InferenceSession:
        asked.append(runtime)
        raise SettingsError("enough")

    monkeypatch.setattr("backstory.models.onnx_text._shared", {})
    monkeypatch.setattr("backstory.models.onnx_text.open_session", note)
    with pytest.raises(SettingsError):
        make_embedder(EmbeddingSettings(runtime=runtime)).embed(["ok"], task="query")
    assert asked == [runtime]


def test_names_of_the_original_design_share_a_model_and_its_limits_but_not_among_keys(
    api_key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ("google-gla:gemini-embedding-001", "gemini-embedding-001", "models/gemini-embedding-001")

    assert {resolve_embedder(name).id for name in names} == {"gemini:gemini-embedding-001:768"}
    assert resolve_embedder("local").id == make_embedder(EmbeddingSettings()).id
    assert resolve_embedder("hashing").id == HashingEmbedder.id
    first, second = (make_embedder(EmbeddingSettings()) for _ in range(2))
    assert isinstance(first, LocalEmbedder)
    assert isinstance(second, LocalEmbedder)
    assert first.onnx is second.onnx
    gemini = resolve_embedder(names[0])
    assert resolve_embedder(gemini) is gemini is resolve_embedder(names[0])
    assert api_key not in repr(vars(gemini))
    monkeypatch.setenv("GEMINI_API_KEY", "another")
    assert resolve_embedder(names[0]) is not gemini


@pytest.mark.parametrize(
    "name", ["", "openai:text-embedding-3-small", "granite", "google-gla:gemini-2.5-pro"]
)
def test_an_unknown_name_is_refused(name: str) -> None:
    with raises(InputError, "unknown_embedder", name):
        resolve_embedder(name)


def test_a_gemini_name_needs_a_key() -> None:
    with raises(ModelSetupError, "missing_key", *("GEMINI_API_KEY", "GOOGLE_API_KEY")):
        resolve_embedder("google-gla:gemini-embedding-001")


def test_making_embedders_loads_no_model_library() -> None:
    script = """
import sys
from backstory.models.choice import make_embedder
from backstory.settings.embedding import EmbeddingSettings
for provider in ("local", "gemini", "openai", "hashing"):
    make_embedder(EmbeddingSettings(provider=provider, model="tiny" if provider == "openai" else None))
loaded = {"onnx", "onnxruntime", "tokenizers", "google.genai", "httpx2"} & set(sys.modules)
sys.exit(f"loaded {loaded}" if loaded else 0)
"""

    subprocess.run([sys.executable, "-c", script], check=True)


def test_a_local_model_is_chosen_by_its_name(monkeypatch: pytest.MonkeyPatch, tiny_e5: LocalEmbedder) -> None:
    folder = tiny_e5.onnx.path.parents[1]
    tiny = read_e5_pack(folder / "e5.bin", checksum=checksum_of(folder / "e5.bin"))
    monkeypatch.setattr("backstory.models.embeddings.packs.read_e5_pack", lambda: tiny)

    assert make_embedder(EmbeddingSettings(model="multilingual")).id == tiny_e5.id
    assert resolve_embedder("multilingual").id == tiny_e5.id
    assert make_embedder(EmbeddingSettings(model="english")).id == make_embedder(EmbeddingSettings()).id


def test_an_unknown_local_model_is_refused_with_the_known_ones() -> None:
    with refuses("unknown_model"):
        EmbeddingSettings(model="bge-m3")
    with refuses("two_models"):
        EmbeddingSettings(model="multilingual", model_dir="models/mine")
