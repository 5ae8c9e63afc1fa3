"""A workspace: the folder that holds settings, chats, posts, tables and the search index."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from backstory.base.environment import SETTINGS_FILE, Keys, find_workspace
from backstory.base.errors import SearchIndexError, SettingsError, WorkspaceError
from backstory.index.calibration import DEFAULT_CALIBRATION, Calibration
from backstory.models.choice import make_embedder, make_reranker
from backstory.models.embeddings.embed import EmbeddingCache
from backstory.models.embeddings.protocol import Embedder
from backstory.models.usage import CallMeter
from backstory.pipeline.rendered_pages import EXPORTS_FOLDER, REPORTS_FOLDER, SITE_FOLDER
from backstory.pipeline.sharing import Follower
from backstory.retrieval.evidence.document_fit import DocumentFit
from backstory.retrieval.evidence.learned import read_learned
from backstory.settings.groups import ServiceSettings
from backstory.settings.models import RAGSettings, Settings
from backstory.settings.paths import WorkspacePaths
from backstory.settings.yaml_file import read_settings
from backstory.storage.schema import CACHE, CATALOG, STATE, Part
from backstory.storage.state import State
from backstory.storage.state_places import open_state
from backstory.storage.stores import open_store
from backstory.storage.tables.catalog import Catalog
from backstory.storage.tables.tables import KEPT, Tables

# What a search does not need is loaded where it is needed: chats, rerankers and writers take long to load.
if TYPE_CHECKING:
    import polars as pl

    from backstory.ingest.chats.exports import LastReading
    from backstory.ingest.walk import Listing
    from backstory.models.reranker import JudgementCache, Reranker
    from backstory.pipeline.history.history import RunHistory
    from backstory.writing.answers.choice import AnswerModels
    from backstory.writing.draft import Writer
    from backstory.writing.draft_cache import DraftCache
    from backstory.writing.summaries.request import Summarizer


_KEY_BEFORE_ANY_RUN: Final = bytes(32)
"""For an estimate of the first run: all pseudonyms are equally long, whatever the key."""


@dataclass(frozen=True)
class Workspace(WorkspacePaths):
    """Paths and settings of one workspace, and the resources that all stages share."""

    @property
    def has_chats(self) -> bool:
        """Whether it has a folder of chats, or messages that a run read; otherwise it holds documents alone."""
        return self.chats_dir.is_dir() or bool(self.tables.keys("messages"))

    @property
    def hides_names(self) -> bool:
        """Whether the real names of members are replaced in the tables."""
        return self.settings.privacy.pseudonyms and self.has_chats

    @property
    def feeds_back(self) -> bool:
        """Whether written posts are documents for later windows."""
        return self.settings.writers.feedback == "on"

    @property
    def shares_posts(self) -> bool:
        """Whether written posts are documents for later windows of every conversation."""
        return self.feeds_back and self.settings.writers.feedback_scope == "workspace"

    def date_locally(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Put the dates of documents, ``published_at``, into the time zone in which people are shown them."""
        import polars as pl

        zone = self.settings.conversations.timezone
        return rows.with_columns(pl.col("published_at").dt.convert_time_zone(zone))

    @property
    def rag(self) -> RAGSettings:
        """The settings of the retrieval for windows, exact where posts are documents: each would change a graph."""
        rag = self.settings.rag
        return rag.model_copy(update={"mode": "exact"}) if self.feeds_back else rag

    @cached_property
    def follower(self) -> Follower:
        """Fetches later snapshots from the store of the settings, if there is one."""
        return Follower(self, self.tables)

    @cached_property
    def tables(self) -> Tables:
        """The tables."""
        store = open_store(self.settings.storage.files or self.tables_dir)
        return Tables(store, Catalog(self.open_state(CATALOG, self.settings.storage.database)))

    @property
    def catalog(self) -> Catalog:
        """What each partition of the tables holds and was made from."""
        return self.tables.catalog

    def publish_tables(self, older_than: timedelta = KEPT, *, discarded: Collection[str] = ()) -> None:
        """Write the lists by which other programs read the tables, and delete files as ``Tables.collect`` tells."""
        from backstory.storage.tables.views import write_views

        with self.catalog.state.lock("publication of tables"):
            self.tables.publish()
            if self.settings.storage.files is None:
                write_views(self.tables)
            if self.tables.collect(older_than, discarded=discarded) and older_than < KEPT:
                self.catalog.state.compact()

    @cached_property
    def last_reading(self) -> LastReading:
        """The exports as this process read them last."""
        from backstory.ingest.chats.exports import LastReading

        return LastReading(self.chats_dir, self.settings.conversations)

    @cached_property
    def runs(self) -> RunHistory:
        """The history of runs, with the budgets that they share."""
        from backstory.pipeline.history.history import RunHistory

        return RunHistory(self.state, self.tables, self.settings)

    @property
    def located_settings(self) -> Settings:
        """The settings with the folders of models, which are relative to the workspace, as absolute paths."""
        groups = {name: getattr(self.settings, name) for name in ("embedding", "rerank")}
        for name, group in groups.items():
            if group.model_dir is not None:
                folder = str(self.root / Path(group.model_dir).expanduser())
                groups[name] = group.model_copy(update={"model_dir": folder})
        return self.settings.model_copy(update=groups)

    def load_secret(self) -> bytes:
        """Read the key of the pseudonyms, and create it in the first run."""
        from backstory.ingest.privacy.pseudonyms import is_unmade, load_secret

        if not self.writes and is_unmade(self.secret, self.tables):
            return _KEY_BEFORE_ANY_RUN
        return load_secret(self.secret, self.tables)

    def list_other_parts(self) -> list[Path]:
        """List the paths that are not documents, even if the workspace itself is the folder of documents."""
        made = (self.posts_dir, self.tables_dir, self.index, self.secret.parent, self.dagster_home)
        pages = (*(self.root / name for name in (EXPORTS_FOLDER, REPORTS_FOLDER, SITE_FOLDER)), self.dumps)
        return [self.root / SETTINGS_FILE, *pages, self.chats_dir, *made]

    def list_documents(self) -> Listing:
        """List the files of the documents, with those of the written posts if they are documents, too."""
        from backstory.ingest.documents.files import list_written
        from backstory.ingest.sources.listing import list_documents

        listing = list_documents(self, self.list_other_parts())
        if not self.feeds_back:
            return listing
        return listing + list_written(self.posts_dir, self.settings.writers.folder)

    def _meter(self, purpose: str, settings: ServiceSettings) -> CallMeter:
        """Make what counts the calls of a paid service; those of a model of this process are not counted."""
        return CallMeter() if settings.paid_model is None else self.runs.meter(purpose, settings.paid_model)

    @cached_property
    def embedder(self) -> Embedder:
        """The embedder of the settings, opened once."""
        settings = self.located_settings.embedding
        return make_embedder(settings, self._meter("embedding", settings), self.keys)

    @cached_property
    def reranker(self) -> Reranker | None:
        """The reranker of the settings, opened once; None if none is configured."""
        settings = self.located_settings.rerank
        return make_reranker(settings, self._meter("rerank", settings), self.keys)

    @cached_property
    def writer(self) -> Writer | None:
        """The writer of the settings, made once; None if no posts are written."""
        from backstory.writing.choice import make_writer

        settings = self.settings.writers
        return make_writer(settings, self.root, self._meter("writing", settings), self.keys)

    @cached_property
    def summarizer(self) -> Summarizer:
        """The summarizer of the settings, made once."""
        from backstory.writing.summaries.choice import make_summarizer

        settings = self.settings.summaries
        return make_summarizer(settings, self.drafts, self._meter("summarizing", settings), self.keys)

    @cached_property
    def answer_models(self) -> AnswerModels | None:
        """The models that answer questions, made once; None if answers are sentences of the documents."""
        settings = self.settings.answers
        if settings.paid_model is None:
            return None
        from backstory.pipeline.history.spending import estimate_cost, find_price
        from backstory.writing.answers.choice import make_answer_models

        price = find_price(self.settings.costs, settings.paid_model)
        meter = self._meter("answering", settings)
        return make_answer_models(settings, meter, partial(estimate_cost, price), self.keys, self.reranker)

    def open_state(self, part: Part, address: str | None) -> State:
        """Open a part of its state on a server, or in the folder where it lies without one."""
        return open_state(self.secret.parent if part.is_private else self.tables_dir, address, part)

    @cached_property
    def state(self) -> State:
        """The history of runs, with the budgets that they share, conversations and jobs."""
        return self.open_state(STATE, self.settings.storage.database)

    @cached_property
    def cache(self) -> State:
        """What the vectors, judgements and drafts lie in."""
        return self.open_state(CACHE, self.settings.storage.database)

    @cached_property
    def judgements(self) -> JudgementCache:
        """The judgements that rerankers have given."""
        from backstory.models.reranker import JudgementCache

        return JudgementCache(self.cache)

    @cached_property
    def drafts(self) -> DraftCache:
        """The drafts that writers have made, and the summaries by models."""
        from backstory.writing.draft_cache import DraftCache

        return DraftCache(self.cache)

    @property
    def calibration(self) -> Calibration:
        """The constants of the embedding space: those of a published snapshot in it that can be read, or defaults."""
        from backstory.index.snapshot import current_version, read_manifest

        version = current_version(self.index)
        # The examination of the index tells that a manifest is damaged, and the next run makes it again.
        with suppress(SearchIndexError):
            if version and (manifest := read_manifest(self.index / version)).embedder_id == self.embedder.id:
                return manifest.calibration
        return DEFAULT_CALIBRATION

    @property
    def document_fit(self) -> DocumentFit | None:
        """The fit of `backstory learn`, as its file is now; None without one, or if it is of another embedder."""
        learned = read_learned(self.learned)
        return learned.fit if learned is not None and learned.embedder == self.embedder.id else None

    @cached_property
    def embeddings(self) -> EmbeddingCache:
        """The cache of vectors that all stages share."""
        return EmbeddingCache(self.cache)


def open_workspace(
    path: Path | None = None,
    *,
    accept_removals: bool = False,
    keys: Keys | None = None,
    writes: bool = True,
) -> Workspace:
    """Open the workspace named by the caller, the environment or the current folder, in step with its store.

    Args:
        path: A folder, or None to use ``BACKSTORY_WORKSPACE`` or the current folder.
        accept_removals: Whether a run may drop messages or documents that earlier runs read.
        keys: Its own keys; None for those of the environment.
        writes: Whether a reading of its inputs may note what it found; an estimate says no.

    Raises:
        WorkspaceError: The folder is not a workspace, or its path cannot be used.
        SettingsError: The settings are invalid, or make the same files both chats and documents.
        MissingExtraError: The settings name a database, and its packages are not installed.
    """
    root = find_workspace(path)
    if "?" in str(root):  # which DuckDB takes for the start of options
        raise WorkspaceError(
            f"{root} holds a question mark, below which DuckDB cannot write; rename the folder",
            code="unusable_path",
        )
    workspace = Workspace(root, read_settings(root / SETTINGS_FILE), accept_removals, keys, writes)
    # The reverse is fine: exports are skipped there.
    if workspace.documents_dir.resolve().is_relative_to(workspace.chats_dir.resolve()):
        chats, posts = workspace.settings.conversations.folder, workspace.settings.documents.folder
        raise SettingsError(
            f"{workspace.root / SETTINGS_FILE}: documents.folder ({posts}) is conversations.folder ({chats}) or lies "
            "in it, and every document would be read as a chat, too; name another folder for one of them, such "
            "as chats and posts",
            code="nested_folders",
        )
    workspace.follower.follow()
    return workspace
