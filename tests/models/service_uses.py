"""Every use of a service in common terms, for the tests of what holds for all of them."""

from __future__ import annotations

import itertools
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Final

import numpy as np

from backstory.base.errors import ModelError
from backstory.models.chat_model import ChatModel
from backstory.models.embeddings.service_embedder import GeminiEmbedder, ServiceEmbedder
from backstory.models.llm_reranker import LLMReranker
from backstory.models.usage import CallMeter
from backstory.settings.embedding import EmbeddingSettings
from backstory.settings.groups import ServiceSettings
from backstory.settings.models import RerankSettings
from backstory.settings.writers import AnswerSettings, SummarySettings, WriterSettings
from backstory.writing.answers.model_answer import ModelAnswerer
from backstory.writing.draft_answer import make_post_form
from backstory.writing.draft_cache import DraftCache
from backstory.writing.model_writer import ModelWriter
from backstory.writing.prompt import load_prompt
from backstory.writing.summaries.model_summarizer import ModelSummarizer
from backstory.writing.summaries.prompt import make_summary_form
from backstory.writing.summaries.request import UnwrittenError
from tests.caches import open_cache
from tests.models.known_services import Behaviour, Service
from tests.models.rerankers import rerank_requests
from tests.models.services.gemini_server import vector_of
from tests.writing.answers.passages import make_passage
from tests.writing.material import make_context, make_window
from tests.writing.summaries import texts


@dataclass(frozen=True)
class Outcome:
    """What came of one call."""

    value: Any
    reason: str | None = None


class Use(ABC):
    """What a service is used for."""

    group: ClassVar[str]
    key_variable: ClassVar[str]
    per_minute: ClassVar[str] = "requests_per_minute"
    settings: ClassVar[type[ServiceSettings]]
    expected: ClassVar[Any]

    def complete(self, service: Service, given: Mapping[str, Any]) -> Any:
        """Make the settings of a call, with a model named ``tiny`` and hardly any limit unless it is given."""
        defaults = {
            "provider": service.name,
            "model": "tiny",
            "base_url": service.url,
            self.per_minute: 100_000,
        }
        return self.settings.model_validate(defaults | dict(given))

    @abstractmethod
    def answer(self, service: Service) -> Behaviour:
        """Make the server give a good answer."""

    @abstractmethod
    def connect(
        self, service: Service, folder: Path, meter: CallMeter | None = None, **settings: Any
    ) -> Callable[[], Outcome]:
        """Give a function that makes one call."""


class ChatUse(Use):
    """A use that asks a chat model."""

    good: ClassVar[Mapping[str, Any]]
    required: ClassVar[list[str]]
    most_tokens: ClassVar[int] = 8192
    temperature: ClassVar[float | None] = None
    id_end: ClassVar[str] = ":o8192"
    attempts: ClassVar[int] = 2

    def answer(self, service: Service) -> Behaviour:
        return service.say(json.dumps(self.good))

    @abstractmethod
    def make(self, model: ChatModel, settings: Any, meter: CallMeter, folder: Path) -> Any:
        """Make what asks the model."""

    @abstractmethod
    def call(self, maker: Any) -> Outcome:
        """Have it ask once."""

    def connect(
        self, service: Service, folder: Path, meter: CallMeter | None = None, **settings: Any
    ) -> Callable[[], Outcome]:
        maker = self.open(service, folder, meter, **settings)
        return lambda: self.call(maker)

    def open(self, service: Service, folder: Path, meter: CallMeter | None = None, **settings: Any) -> Any:
        """Make what asks the service."""
        given = self.complete(service, settings)
        used = meter or CallMeter()
        return self.make(ChatModel(given, service.open(given, used)), given, used, folder)


class Writing(ChatUse):
    """Posts."""

    group = "writers"
    key_variable = "BACKSTORY_WRITER_KEY"
    settings = WriterSettings
    good: ClassVar[Mapping[str, Any]] = {"title": "Garden", "text": "It was watered [1].", "tags": ["garden"]}
    expected: ClassVar[Any] = ("Garden", "It was watered [1].", ("garden",))
    required: ClassVar[list[str]] = ["title", "text", "tags"]
    attempts = 1  # a rejected draft is shown to a person; the settings say how many there may be

    def make(self, model: ChatModel, settings: Any, meter: CallMeter, folder: Path) -> ModelWriter:  # noqa: ARG002
        form = make_post_form(settings.max_output_tokens)
        return ModelWriter(model, form, load_prompt(None), max_characters=settings.max_characters)

    def call(self, maker: ModelWriter) -> Outcome:
        draft = maker.write(make_window(), make_context())
        value = (draft.title, draft.text, draft.tags) if draft.withheld is None else None
        return Outcome(value, draft.withheld)


class Reranking(ChatUse):
    """Judgements of candidates."""

    group = "rerank"
    key_variable = "BACKSTORY_RERANK_KEY"
    settings = RerankSettings
    good: ClassVar[Mapping[str, Any]] = rerank_requests.answer_of({"soup": [2]}, [[0], [5]])
    expected: ClassVar[Any] = [[0, 5]]
    required: ClassVar[list[str]] = ["topics", "documents"]
    most_tokens = 16_384
    temperature = 0.0
    id_end = ":prompt3"

    def make(
        self,
        model: ChatModel,
        settings: Any,
        meter: CallMeter,
        folder: Path,  # noqa: ARG002
    ) -> LLMReranker:
        return LLMReranker(model, threads=settings.threads, meter=meter)

    def call(self, maker: LLMReranker) -> Outcome:
        [judged] = maker.judge([rerank_requests.request_of("a", "b")])
        assert judged.note is None or judged.values.shape == (0, 2)
        return Outcome(judged.values.tolist(), judged.note)


class Summarizing(ChatUse):
    """Summaries of documents."""

    group = "summaries"
    key_variable = "BACKSTORY_SUMMARY_KEY"
    settings = SummarySettings
    good: ClassVar[Mapping[str, Any]] = {"summary": "Warm water."}
    expected: ClassVar[Any] = "Warm water."
    required: ClassVar[list[str]] = ["summary"]
    _numbers: ClassVar[Any] = itertools.count()

    def make(
        self,
        model: ChatModel,
        settings: Any,
        meter: CallMeter,  # noqa: ARG002
        folder: Path,
    ) -> ModelSummarizer:
        form, drafts = (
            make_summary_form(settings.max_output_tokens),
            DraftCache(open_cache(folder / f"{next(self._numbers)}")),
        )
        return ModelSummarizer(model, form, drafts, threads=settings.threads)

    def call(self, maker: ModelSummarizer) -> Outcome:
        # Another document each time, since what was answered is not asked again.
        source = texts.make_plain(f"The water of house {next(self._numbers)} is warm.")
        try:
            return Outcome(maker.summarize(texts.request_of(source)))
        except UnwrittenError as error:
            return Outcome(None, str(error))


class Answering(ChatUse):
    """Answers to questions."""

    group = "answers"
    key_variable = "BACKSTORY_ANSWER_KEY"
    settings = AnswerSettings
    good: ClassVar[Mapping[str, Any]] = {
        "claims": [
            {
                "text": "The water is warm.",
                "citations": [{"id": "p1", "quote": "water is warm"}],
                "parts": [1],
            }
        ]
    }
    expected: ClassVar[Any] = [("The water is warm.", "water is warm")]
    required: ClassVar[list[str]] = ["claims"]

    def make(
        self,
        model: ChatModel,
        settings: Any,
        meter: CallMeter,  # noqa: ARG002
        folder: Path,  # noqa: ARG002
    ) -> ModelAnswerer:
        return ModelAnswerer(
            model,
            max_output_tokens=settings.max_output_tokens,
            unsupported=settings.unsupported,
            price=lambda used: used.tokens / 1000,
        )

    def call(self, maker: ModelAnswerer) -> Outcome:
        question = "How is the water of the house?"
        passages = [make_passage("The water is warm.")]
        try:
            made = maker.answer(question, [question], passages, kind="lookup")
        except ModelError as error:
            if error.code != "unusable_answer":
                raise
            return Outcome(None, str(error).partition("can be read: ")[2])
        claims = [(claim.text, claim.citations[0].quote) for claim in made.claims]
        reason = (
            str(made.notes[0]).partition("declined to answer: ")[2].removesuffix(".")
            if made.refused
            else None
        )
        return Outcome(claims, reason)


class Embedding(Use):
    """Vectors of texts."""

    group = "embedding"
    key_variable = "BACKSTORY_EMBEDDING_KEY"
    per_minute = "texts_per_minute"
    settings = EmbeddingSettings
    expected: ClassVar[Any] = True

    def answer(self, service: Service) -> Behaviour:
        return service.embed()

    def connect(
        self,
        service: Service,
        folder: Path,  # noqa: ARG002
        meter: CallMeter | None = None,
        **settings: Any,
    ) -> Callable[[], Outcome]:
        given = self.complete(service, {"dimension": 16} | settings)
        kind = GeminiEmbedder if service.name == "gemini" else ServiceEmbedder
        embedder = kind(given, service.open(given, meter or CallMeter()))

        def call() -> Outcome:
            vector = vector_of("soup", 16)
            found = embedder.embed(["soup"], task="document")
            return Outcome(np.allclose(found, [vector / np.linalg.norm(vector)], atol=1e-6))

        return call


CHAT_USES: Final[dict[str, ChatUse]] = {
    "write": Writing(),
    "rerank": Reranking(),
    "summarize": Summarizing(),
    "answer": Answering(),
}
USES: Final[dict[str, Use]] = {**CHAT_USES, "embed": Embedding()}
