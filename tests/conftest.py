"""What all tests share."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings
from numpy.typing import NDArray
from tokenizers import Tokenizer

from backstory.embedders.granite_pack import read_granite_pack
from backstory.tokens import CountTokens

# The same examples in every run and on every machine, however slow: a failure can be seen again.
settings.register_profile("backstory", derandomize=True, deadline=None)
settings.load_profile("backstory")

SHARED_DATA = Path(__file__).resolve().parents[2] / "shared" / "data"


@pytest.fixture
def shared_data() -> Path:
    """Give the folder of real data, which lies beside the checkout where there is one."""
    if not SHARED_DATA.is_dir():
        pytest.skip(f"real data is not beside the checkout ({SHARED_DATA})")
    return SHARED_DATA


@pytest.fixture(scope="session")
def count_granite_tokens() -> CountTokens:
    """Count with the tokenizer of the default local model, special tokens included."""
    tokenizer = Tokenizer.from_buffer(read_granite_pack().tokenizer)

    def count(texts: Sequence[str]) -> NDArray[np.int64]:
        readable = [text.encode("utf-8", "replace").decode() for text in texts]
        return np.array([len(encoding.ids) for encoding in tokenizer.encode_batch(readable)], np.int64)

    return count


@pytest.fixture(autouse=True)
def _own_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep a developer's workspace and keys out of the tests."""
    for variable in ("BACKSTORY_WORKSPACE", "GEMINI_API_KEY", "GOOGLE_API_KEY", "DAGSTER_HOME"):
        monkeypatch.delenv(variable, raising=False)
