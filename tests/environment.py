"""The environment of every test: no keys, caches and limits but its own, and the same random examples."""

import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import certifi
import pytest
from hypothesis import settings

from backstory.models.embeddings.packs import read_granite_pack
from backstory.models.onnx_text import TextTokenizer
from backstory.models.service import Service
from backstory.text.chunking.units import TokenCounter
from tests.long_tests import some
from tests.models.services.gemini_server import GeminiServer, run_gemini_server
from tests.models.services.instant_time import InstantTime
from tests.token_counters import ModelCounter

# The same examples in every run and on every machine, however slow: a failure can be seen again.
settings.register_profile("backstory", derandomize=True, deadline=None, max_examples=some(100))
settings.load_profile("backstory")

KEY = "AIzaSyTestKeyThatMustNeverBeSeen0123456789"
SHARED_DATA = Path(__file__).resolve().parents[2] / "shared" / "data"


@pytest.fixture
def shared_data() -> Path:
    """Give the folder of real data, which lies beside the checkout where there is one."""
    if not SHARED_DATA.is_dir():
        pytest.skip(f"real data is not beside the checkout ({SHARED_DATA})")
    return SHARED_DATA


@pytest.fixture(scope="session")
def granite_tokens() -> TokenCounter:
    """Count with the tokenizer of the default local model, special tokens included."""
    return ModelCounter(TextTokenizer(read_granite_pack().read_tokenizer()))


@pytest.fixture(scope="session")
def model_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give one cache folder to all workers of a run: one of them builds a model's graph, the others wait for it."""
    base = tmp_path_factory.getbasetemp()
    return (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "cache"


@pytest.fixture(scope="session")
def one_authority(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give a file with one certificate: no test speaks TLS, and each client of a service loads all that it is given."""
    first, end, _ = Path(certifi.where()).read_text(encoding="utf-8").partition("-----END CERTIFICATE-----\n")
    path = tmp_path_factory.mktemp("authority") / "one.pem"
    path.write_text(first + end, encoding="utf-8")
    return path


@pytest.fixture(autouse=True)
def _own_environment(
    monkeypatch: pytest.MonkeyPatch,
    model_cache: Path,
    one_authority: Path,
) -> None:
    """Keep a developer's workspace, keys and cache out of the tests."""
    monkeypatch.setenv("BACKSTORY_CACHE_DIR", str(model_cache))
    monkeypatch.setenv("SSL_CERT_FILE", str(one_authority))
    for variable in (
        *("BACKSTORY_WORKSPACE", "GEMINI_API_KEY", "GOOGLE_API_KEY"),
        # Together, since a home that differs from the second one is taken for an operator's.
        *("DAGSTER_HOME", "BACKSTORY_DAGSTER_HOME"),
        *("BACKSTORY_WRITER_KEY", "BACKSTORY_RERANK_KEY", "BACKSTORY_EMBEDDING_KEY", "OPENAI_API_KEY"),
        *("BACKSTORY_SUMMARY_KEY", "BACKSTORY_PSEUDONYM_KEY"),
        *(
            "AWS_ENDPOINT_URL",
            "AWS_ACCESS_KEY_ID",
            "AWS_SECRET_ACCESS_KEY",
            "AWS_SESSION_TOKEN",
            "AWS_ALLOW_HTTP",
        ),
        *("BACKSTORY_ANSWER_KEY", "BACKSTORY_DRIVE_CREDENTIALS", "GOOGLE_APPLICATION_CREDENTIALS"),
    ):
        monkeypatch.delenv(variable, raising=False)


@pytest.fixture
def api_key(monkeypatch: pytest.MonkeyPatch) -> str:
    """Put a key where users put it."""
    monkeypatch.setenv("GEMINI_API_KEY", KEY)
    return KEY


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[GeminiServer]:
    """Run a loopback server in place of the Gemini API."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with run_gemini_server() as running:
        yield running


@pytest.fixture
def instant_time() -> InstantTime:
    return InstantTime()


@pytest.fixture
def open_service(instant_time: InstantTime) -> Callable[..., Service]:
    """Make clients of services that never wait in real time."""
    return partial(Service, clock=instant_time.clock, wait=instant_time.wait)
