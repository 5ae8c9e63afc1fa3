"""A service that fails as services do: vectors are those of a clean one, and nothing that was paid for is lost."""

from collections.abc import Callable
from pathlib import Path

import numpy as np

from backstory.models.embeddings.embed import EmbeddingCache, embed_texts
from backstory.models.embeddings.service_embedder import GeminiEmbedder
from tests.caches import open_cache
from tests.models.services.faults import Faults
from tests.models.services.gemini_server import GeminiServer

Connect = Callable[..., GeminiEmbedder]

TEXTS = [f"message {number}" for number in range(600)]
REQUEST_TEXTS = 10


def test_a_faulty_service_gives_the_vectors_of_a_clean_one(
    server: GeminiServer, connect: Connect, tmp_path: Path
) -> None:
    clean = connect().embed(TEXTS, task="document")
    server.requests.clear()
    faults = Faults(server, 8, refused=0.10, failed=0.05, dropped=0.02, silent=0.01, slow=0.02)
    server.always = faults
    embedder = connect(texts_per_minute=REQUEST_TEXTS, timeout_seconds=2, max_attempts=8)

    found = embed_texts(
        embedder, TEXTS, task="document", cache=EmbeddingCache(open_cache(tmp_path / "faulty"))
    )

    np.testing.assert_array_equal(found.vectors, clean)
    assert faults.counts["answered"] + faults.counts["slow"] >= len(TEXTS) / REQUEST_TEXTS
    assert min(faults.counts[fate] for fate in ("refused", "failed", "dropped", "silent", "slow")) >= 1
    assert found.stats.api_calls == len(server.requests) == faults.counts.total()
