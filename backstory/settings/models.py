"""All settings of a workspace: one frozen group for each stage."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from typing import Annotated, Any, ClassVar, Final, Literal, Self, TypeAlias
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr, field_validator, model_validator

from backstory.base.addresses import require_protected
from backstory.base.environment import RERANK_KEY_VARIABLE
from backstory.base.errors import SettingsError
from backstory.settings.embedding import EmbeddingSettings
from backstory.settings.groups import (
    LanguageModelSettings,
    Service,
    ServiceSettings,
    SettingsGroup,
    WebAddress,
    fill_from_services,
)
from backstory.settings.inputs import ChunkSettings, ConversationSettings, DocumentSettings, PrivacySettings
from backstory.settings.storage import StorageSettings
from backstory.settings.writers import AnswerSettings, SummarySettings, WriterSettings

DayName: TypeAlias = Annotated[str, BeforeValidator(lambda day: date.fromisoformat(str(day)).isoformat())]
"""A day, written as YYYY-MM-DD."""


class PartitionSettings(SettingsGroup):
    """The calendar grain of the tables, the first day that Dagster offers, and the ceiling of rows in memory."""

    grain: Literal["hour", "day", "week", "month"] = "day"
    """Calendar unit of one partition, by the clock of each conversation; hours are those of UTC."""
    start: DayName | None = None
    """First day that Dagster offers (YYYY-MM-DD); null takes that of the first message."""
    days_per_run: int | None = Field(default=None, ge=1)
    """Most partitions of one run of a backfill in Dagster, so that several workers share it; null for any number."""
    look_back: int = Field(default=3, ge=0)
    """Partitions that count as recent in addition to the latest: for the schedule, and for `after_posts: recent`."""
    after_posts: Literal["none", "recent", "all"] = "recent"
    """Which partitions the sensor and the schedule search again after changed posts; others keep their contexts."""
    allow_timestamp_outliers: bool = False
    """Whether a few messages may lie more than a year from all others; else such messages stop a run."""
    rows_at_once: int = Field(default=10_000, ge=1)
    """Messages or query chunks that a stage holds at once, in whole partitions; it bounds memory and changes no row."""


class WindowSettings(SettingsGroup):
    """How a partition's messages are cut into windows."""

    unit: Literal["messages", "tokens", "bytes", "minutes", "hours", "day"] = "messages"
    """What `size` and `overlap` count; `day` makes one window per day."""
    size: int = Field(default=500, ge=1)
    """Largest amount of `unit` in one window."""
    overlap: int = Field(default=0, ge=0)
    """Largest amount of `unit` that a window repeats from the end of the previous window."""

    @model_validator(mode="after")
    def _overlap_below_size(self) -> Self:
        most = 0 if self.unit == "day" else self.size - 1
        if self.overlap > most:
            raise ValueError(f"overlap {self.overlap} must be below size {self.size}, and 0 for unit day")
        return self


class QuerySettings(SettingsGroup):
    """How a window is cut into query chunks."""

    granularities: tuple[Annotated[int, Field(ge=0)], ...] = Field(default=(1,), min_length=1)
    """Messages per query chunk, one or more sizes, each searched; 0 packs messages up to the token ceiling."""
    min_tokens: int | None = Field(default=None, ge=0)
    """Least tokens of a query chunk, of several messages if need be; null: the embedder's, or one per short message."""

    @field_validator("granularities")
    @classmethod
    def _distinct(cls, value: tuple[int, ...]) -> tuple[int, ...]:
        if len(set(value)) != len(value):
            raise ValueError("a size is listed twice; remove it")
        return value


class IndexSettings(SettingsGroup):
    """How the search index is built and kept."""

    engine: Literal["embedded", "milvus"] = "embedded"
    """Where `mode: ann` searches: in this process, or in Milvus, which gets the rows that changed."""
    uri: WebAddress | None = None
    """Address of the Milvus server, such as `https://host:19530`; its key: `MILVUS_TOKEN`."""
    allow_http: bool = False
    """Whether `uri` may be http:// of another machine, to which vectors and key travel unencrypted."""
    ann_min_rows: int = Field(default=1_000_000, ge=0)
    """Least number of chunks for which `mode: ann` searches with DuckDB VSS; with fewer, the exact engine answers."""
    hnsw_m: int = Field(default=16, ge=2)
    """Links per row of the HNSW graph."""
    hnsw_ef_construction: int = Field(default=128, ge=8)
    """Candidates that the HNSW build considers for each row."""
    ef_search: int = Field(default=256, ge=1)
    """Candidates that an HNSW search considers for each query; Milvus considers more among more rows."""
    language: str = "auto"
    """Stemming and stop words of keyword search: `auto` by each document's language, one like `german`, or `none`."""

    def has_graph(self, rows: int) -> bool:
        """Return whether an index of that many chunks has an HNSW index, in its files or on a server."""
        return rows > 0 and (self.engine == "milvus" or rows >= self.ann_min_rows)

    @model_validator(mode="after")
    def _names_a_server(self) -> Self:
        if self.engine == "milvus" and self.uri is None:
            raise SettingsError(
                "engine: milvus needs uri, such as `uri: https://host:19530`", code="absent_setting"
            )
        require_protected(self.uri, allow_http=self.allow_http, sent="vectors and key", name="uri")
        return self

    @field_validator("language")
    @classmethod
    def _known_language(cls, value: str) -> str:
        import Stemmer

        known = Stemmer.algorithms()
        if value not in (*known, "none", "auto"):
            raise ValueError(
                f"there is no stemmer for this language; use one of {', '.join(known)}, none, or auto"
            )
        return value


class RAGSettings(SettingsGroup):
    """Retrieval, selection and deduplication: the ``rag:`` block of the original design, and its additions."""

    enabled: bool = True
    """Whether contexts are made for windows."""
    top_k: int = Field(default=5, ge=1)
    """Most chunks in a context; one per document by default."""
    posts_top_k: int = Field(default=2, ge=0)
    """Most chunks of earlier posts in a context, in addition to `top_k`; read where `writers.feedback` is on."""
    mode: Literal["ann", "exact"] = "ann"
    """`ann` allows approximate search; `exact` does not, and neither does `writers.feedback: on` for windows."""
    nprobe: int | None = Field(default=None, ge=1)
    """Accepted for compatibility and used as `ef_search`, with a warning."""
    overfetch: int | None = Field(default=None, ge=1)
    """Multiple of `chunks_per_query` that an approximate search fetches as candidates; null for the default."""
    chunks_per_query: int = Field(default=5, ge=1)
    """Most hits per query chunk."""
    dedup_strategy: Literal["document", "none"] = "document"
    """`document` keeps the best chunks of each document; `none` keeps all."""
    dedup_max_per_doc: int = Field(default=1, ge=1)
    """Most chunks to keep per document."""
    near_duplicate_similarity: float | None = Field(default=None, gt=0, le=1)
    """Cosine at or above which two chunks are near-duplicates; null drops chunks of the same text alone."""
    min_similarity: float | None = Field(default=None, ge=-1, le=1)
    """Cosine below which a hit is dropped, beside the hits that are too improbable; null: none is dropped by it."""
    plan: Literal["chunked", "hybrid", "adaptive"] = "chunked"
    """`chunked` searches for each query chunk, `hybrid` also for the whole window, `adaptive` for either, by size."""
    adaptive_max_messages: int = Field(default=100, ge=1)
    """Most messages of a window that `adaptive` searches for as a whole."""
    ranking: Literal["dense", "keyword", "hybrid"] = "hybrid"
    """Order of the hits of a query chunk: by vectors, by keywords (BM25), or by both."""
    strategy: Literal["coverage", "similarity", "mmr"] = "coverage"
    """`coverage` serves each topic of a window, `similarity` takes the best scores, `mmr` trades score for variety."""
    mmr_lambda: float = Field(default=0.5, ge=0, le=1)
    """Weight of relevance against variety in `strategy: mmr`."""
    as_of: bool = True
    """Whether documents published after the window began are hidden."""
    undated: Literal["serve", "hide"] = "serve"
    """Whether documents without a date are served to every window or to none."""
    kinds: tuple[str, ...] = ()
    """Only documents of these kinds; empty for all."""
    tags: tuple[str, ...] = ()
    """Only documents with one of these tags; empty for all."""
    document_ids: tuple[str, ...] = ()
    """Only these documents; empty for all."""
    tenant: str | None = None
    """Only documents of this tenant; null for all."""


class RerankSettings(LanguageModelSettings):
    """An optional step of selection: a model judges the candidates, and its judgements select ``rag.top_k`` of them."""

    key_variable: ClassVar[str] = RERANK_KEY_VARIABLE

    provider: Literal["none", "gemini", "openai", "cross_encoder"] = "none"
    """`gemini`, `openai`, or a name of `services`: one call per window; `cross_encoder`: an ONNX model of yours."""
    candidates: int = Field(default=20, ge=1)
    """Chunks that are selected for the reranker, in the order of `rag.strategy`; never fewer than `rag.top_k`."""
    model_dir: str | None = None
    """Folder of `model.onnx` (or `onnx/model.onnx`) and `tokenizer.json`, relative to the workspace."""
    max_tokens: int = Field(default=512, ge=8)
    """Most tokens of a query chunk and a candidate together for `cross_encoder`; the longer text is cut first."""
    temperature: float | None = Field(default=0.0, ge=0, le=2)
    """Randomness of a language model; null for its own default, which some models insist on."""
    threads: int = Field(default=4, ge=1)
    """Most calls at once; as many partitions are finished before any is written."""


class ContextSettings(SettingsGroup):
    """The context that a writer gets as prompt text."""

    max_tokens: int = Field(default=4000, ge=1)
    """Most tokens of a context; the passages of `contexts` are chosen to fill it."""
    posts_max_tokens: int = Field(default=1600, ge=1)
    """Most tokens of earlier posts in a context, in addition to `max_tokens`; read where `writers.feedback` is on."""
    excerpt: Literal["head", "passage"] = "passage"
    """Part of a chunk that the prompt text shows: the passage that serves the window, or its beginning (`head`)."""
    snippet_characters: int = Field(default=400, ge=1)
    """Most characters of the beginning of a chunk; from it follows how many documents fit into a context."""


def require_address(address: SecretStr) -> SecretStr:
    """Return an address of http or https with a host, or raise ``ValueError``, whose message does not show it."""
    try:
        parts = urlsplit(address.get_secret_value())
    except ValueError:
        parts = urlsplit("")
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("this must be an address that begins with https:// or http://")
    return address


class AlertSettings(SettingsGroup):
    """Where a run sends alerts about failures, checks with cases and files that were not read."""

    command: tuple[str, ...] | None = Field(default=None, min_length=1)
    """Program and arguments, such as `[bin/alert, --loud]`; it gets the alert as JSON on standard input."""
    webhook: Annotated[SecretStr, AfterValidator(require_address)] | None = None
    """Address that gets the alert as JSON by POST; `BACKSTORY_ALERT_WEBHOOK` is used instead where it is set."""
    on: tuple[Literal["failure", "warning", "set_aside"], ...] = ("failure", "warning", "set_aside")
    """Which events alert: `failure` of a run or a blocking check, `warning` of any other check, files `set_aside`."""
    repeat_hours: int = Field(default=24, ge=0)
    """Hours after which the end of a run alerts again about open problems; 0 for never."""
    timeout_seconds: float = Field(default=10.0, gt=0)
    """Most seconds of the command, and of one attempt to reach the webhook."""


class AgentSettings(SettingsGroup):
    """What the tools of agents may reach besides the documents of the workspace."""

    roots: tuple[Annotated[str, Field(pattern=r"\S")], ...] = ()
    """Folders from which tools may index files, and into which they may write; `~` is the home folder."""


class OrchestrationSettings(SettingsGroup):
    """How Dagster names the workspace."""

    key_prefix: str | None = Field(default=None, pattern=r"^[A-Za-z0-9_]+$")
    """First part of every asset key, so that one Dagster instance can hold several workspaces; null for none."""


class SiteSettings(SettingsGroup):
    """The site of the posts, and their export. No run reads these settings."""

    base_url: WebAddress | None = None
    """Address where the site will stand, such as https://example.org/blog; null for no feeds and no sitemap."""
    title: str = ""
    """Title of the site and its feeds; empty names the conversation."""
    front_matter: Mapping[str, str | bool | int | None] = Field(default_factory=dict)
    """Front matter of exported posts: `pubDate: "{date}"`, `layout: post`; null leaves out what a format has."""


class ModelPrice(SettingsGroup):
    """Price of one model, per million tokens."""

    input: float = Field(ge=0)
    """Price of a million tokens that are sent."""
    output: float = Field(default=0.0, ge=0)
    """Price of a million tokens that the model writes, its thoughts included."""


class BudgetSettings(SettingsGroup):
    """Most that may be used of a paid service; null for no limit."""

    calls: int | None = Field(default=None, ge=0)
    """Most calls, retries included."""
    tokens: int | None = Field(default=None, ge=0)
    """Most tokens, sent and written."""
    money: float | None = Field(default=None, ge=0)
    """Most money, in `costs.currency`, by the prices of `costs.prices`."""


class CostSettings(SettingsGroup):
    """What calls of a paid service cost, and the budgets at which a run stops."""

    currency: str = Field(default="USD", min_length=1)
    """Currency of all prices and budgets; the shipped prices are in USD and serve no other currency."""
    prices: dict[str, ModelPrice] = Field(default_factory=dict)
    """Prices per million tokens, such as `{gemini-2.5-flash: {input: 0.3, output: 2.5}}`; they replace shipped ones."""
    run: BudgetSettings = BudgetSettings()
    """Budget of one run: `calls`, `tokens` and `money`; null for no limit."""
    day: BudgetSettings = BudgetSettings()
    """Budget of a day in `conversations.timezone`, for all processes of the workspace together."""


class RunSettings(SettingsGroup):
    """The limit of a run, and how long its record is kept."""

    max_minutes: int | None = Field(default=720, ge=1)
    """Minutes after which a run stops before its next group of partitions; null for no limit."""
    keep_months: int = Field(default=24, ge=1)
    """Months for which the table `runs` keeps a run."""


class Settings(SettingsGroup):
    """All settings of a workspace."""

    conversations: ConversationSettings = ConversationSettings()
    privacy: PrivacySettings = PrivacySettings()
    partitions: PartitionSettings = PartitionSettings()
    windows: WindowSettings = WindowSettings()
    documents: DocumentSettings = DocumentSettings()
    chunks: ChunkSettings = ChunkSettings()
    queries: QuerySettings = QuerySettings()
    embedding: EmbeddingSettings = EmbeddingSettings()
    index: IndexSettings = IndexSettings()
    rag: RAGSettings = RAGSettings()
    rerank: RerankSettings = RerankSettings()
    context: ContextSettings = ContextSettings()
    alerts: AlertSettings = AlertSettings()
    agents: AgentSettings = AgentSettings()
    orchestration: OrchestrationSettings = OrchestrationSettings()
    writers: WriterSettings = WriterSettings()
    summaries: SummarySettings = SummarySettings()
    answers: AnswerSettings = AnswerSettings()
    site: SiteSettings = SiteSettings()
    services: dict[str, Service] = Field(default_factory=dict)
    """Services of models by name, to which `provider` of a group refers; `gemini` and `openai` need no entry."""
    costs: CostSettings = CostSettings()
    runs: RunSettings = RunSettings()
    storage: StorageSettings = StorageSettings()

    @model_validator(mode="before")
    @classmethod
    def _take_from_services(cls, given: Any) -> Any:
        return fill_from_services(given, SERVED_GROUPS) if isinstance(given, Mapping) else given

    @model_validator(mode="after")
    def _no_post_in_its_own_context(self) -> Self:
        if self.writers.feedback == "on" and not self.rag.as_of:
            raise ValueError(
                "writers.feedback on needs rag.as_of true; without it, a window could be given a post made from itself"
            )
        return self


SERVED_GROUPS: Final[Mapping[str, type[ServiceSettings]]] = {
    name: type(field.default)
    for name, field in Settings.model_fields.items()
    if isinstance(field.default, ServiceSettings)
}
"""The groups whose `provider` may be a service."""
