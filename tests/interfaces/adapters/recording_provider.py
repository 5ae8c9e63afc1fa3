"""A model of words that notes what it embeds, for tests in several processes."""

from collections.abc import Sequence

from backstory.interfaces.adapters.rag_config import BaseEmbeddingProvider
from backstory.models.embeddings.hashing import HashingEmbedder


class RecordingProvider(BaseEmbeddingProvider):
    def __init__(self, model: str = "one") -> None:
        self.model = model
        self.texts: list[str] = []

    def embed(self, texts: list[str]) -> Sequence[Sequence[float]]:
        self.texts += texts
        rows = HashingEmbedder().embed(texts, task="document") * 3  # not of length 1
        return [row.tolist() for row in (rows if self.model == "one" else rows[:, ::-1])]
