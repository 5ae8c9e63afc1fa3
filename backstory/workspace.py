"""A workspace: the folder that holds settings, chats, posts, tables and the search index."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from backstory.calibration import DEFAULT_CALIBRATION, Calibration, find_threshold
from backstory.embeddings import EmbeddingCache, make_embedder
from backstory.embeddings.job_book import JobBook
from backstory.embeddings.protocol import Embedder
from backstory.errors import SearchIndexError, SettingsError, WorkspaceError
from backstory.page_files import REPORTS_FOLDER, SITE_FOLDER
from backstory.settings import SETTINGS_FILE, RAGSettings, Settings
from backstory.settings.environment import find_workspace
from backstory.settings.yaml_file import read_settings
from backstory.tables.ledger import LEDGER_FILE, Ledger

# What a search does not need is loaded where it is needed: chats, rerankers and writers take long to load.
if TYPE_CHECKING:
    from backstory.embeddings.batch_jobs import EmbeddingJobs
    from backstory.messages import LastReading
    from backstory.rerankers import Reranker
    from backstory.rerankers.judgement_cache import JudgementCache
    from backstory.runs import RunHistory
    from backstory.summaries.request import Summarizer
    from backstory.writing import Writer
    from backstory.writing.draft_cache import DraftCache


@dataclass(frozen=True)
class Workspace:
    """Paths and settings of one workspace, and the resources that all stages share.

    Attributes:
        root: Absolute path of the folder.
        settings: Its settings.
        accept_removals: Whether a run may drop messages or documents that earlier runs read.
    """

    root: Path
    settings: Settings
    accept_removals: bool = False

    @property
    def exports(self) -> Path:
        """Folder of the chat exports."""
        return self.root / self.settings.conversations.folder

    @property
    def posts(self) -> Path:
        """Folder of the documents."""
        return self.root / self.settings.documents.folder

    @property
    def inputs_root(self) -> Path:
        """Folder that relative paths of sources begin at."""
        return self.root

    @property
    def added_sources(self) -> Path:
        """File of the list of sources that were added by command."""
        return self.root / ".backstory" / "sources.json"

    @property
    def mirrors(self) -> Path:
        """Folder of the copies of sources that lie elsewhere."""
        return self.root / ".backstory" / "mirrors"

    @property
    def fetches(self) -> bool:
        """Whether sources that lie elsewhere are asked for changes."""
        return True

    @property
    def written(self) -> Path:
        """Folder of the written posts."""
        return self.root / self.settings.writers.folder

    @property
    def dumps(self) -> Path:
        """Folder of the texts of documents that tools of agents write out."""
        return self.root / "dumps"

    @property
    def has_chats(self) -> bool:
        """Whether it has a folder of chats, or messages that a run read; otherwise it holds documents alone."""
        from backstory.tables import list_partitions

        return self.exports.is_dir() or bool(list_partitions(self.tables, "messages"))

    @property
    def feeds_back(self) -> bool:
        """Whether written posts are documents for later windows."""
        return self.settings.writers.feedback == "on"

    @property
    def rag(self) -> RAGSettings:
        """The settings of the retrieval for windows.

        Where posts are documents, windows are searched exactly. A graph over all posts would lead a window past other
        chunks once posts of later windows are in it, and would have to be built for each window with a post.
        """
        rag = self.settings.rag
        return rag.model_copy(update={"mode": "exact"}) if self.feeds_back else rag

    @property
    def tables(self) -> Path:
        """Folder of the tables."""
        return self.root / "data"

    @property
    def index(self) -> Path:
        """Folder of the published snapshots."""
        return self.root / "index"

    @property
    def secret(self) -> Path:
        """File of the key of the pseudonyms."""
        return self.root / ".backstory" / "secret.key"

    @property
    def archive(self) -> Path:
        """Folder of the archive: messages that are kept after the exports lost them."""
        return self.root / ".backstory" / "archive"

    @property
    def forgotten(self) -> Path:
        """File of the list of forgotten things."""
        return self.root / ".backstory" / "forgotten.json"

    @property
    def opt_outs(self) -> Path:
        """File of the list of people who opted out by a command in a chat."""
        return self.root / ".backstory" / "opt_outs.json"

    @property
    def dagster_home(self) -> Path:
        """Folder of Dagster's instance."""
        return self.root / ".dagster"

    @cached_property
    def ledger(self) -> Ledger:
        """The ledger of which inputs each partition was built from."""
        return Ledger(self.tables / LEDGER_FILE)

    @cached_property
    def last_reading(self) -> LastReading:
        """The exports as this process read them last."""
        from backstory.messages import LastReading

        return LastReading()

    @cached_property
    def runs(self) -> RunHistory:
        """The history of runs, with the budgets that they share."""
        from backstory.runs import RunHistory

        return RunHistory(self.secret.parent, self.tables, self.settings)

    @property
    def located_settings(self) -> Settings:
        """The settings with the folders of models as absolute paths.

        The folders are relative to the workspace, because the current folder differs under Dagster and cron.
        """
        embedding, rerank = self.settings.embedding, self.settings.rerank
        return self.settings.model_copy(
            update={
                "embedding": embedding.model_copy(update={"model_dir": self._locate(embedding.model_dir)}),
                "rerank": rerank.model_copy(update={"model_dir": self._locate(rerank.model_dir)}),
            }
        )

    def list_other_parts(self) -> list[Path]:
        """List the paths that are not documents, even if the workspace itself is the folder of documents."""
        made = (self.written, self.tables, self.index, self.secret.parent, self.dagster_home)
        pages = (self.root / REPORTS_FOLDER, self.root / SITE_FOLDER, self.dumps)
        return [self.root / SETTINGS_FILE, *pages, self.exports, *made]

    def _locate(self, folder: str | None) -> str | None:
        return None if folder is None else str(self.root / Path(folder).expanduser())

    @cached_property
    def embedder(self) -> Embedder:
        """The embedder of the settings, opened once."""
        settings = self.located_settings.embedding
        if settings.paid_model is None:
            return make_embedder(settings)
        from backstory.runs.record import EMBEDDING

        return make_embedder(settings, self.runs.meter(EMBEDDING, settings.paid_model))

    @cached_property
    def reranker(self) -> Reranker | None:
        """The reranker of the settings, opened once; None if none is configured."""
        from backstory.rerankers import make_reranker
        from backstory.runs.record import RERANKING

        settings = self.located_settings.rerank
        if settings.paid_model is None:
            return make_reranker(settings)
        return make_reranker(settings, self.runs.meter(RERANKING, settings.paid_model))

    @cached_property
    def writer(self) -> Writer | None:
        """The writer of the settings, made once; None if no posts are written."""
        from backstory.runs.record import WRITING
        from backstory.writing.choice import make_writer

        settings = self.settings.writers
        if settings.paid_model is None:
            return make_writer(settings, self.root)
        return make_writer(settings, self.root, self.runs.meter(WRITING, settings.paid_model))

    @cached_property
    def summarizer(self) -> Summarizer:
        """The summarizer of the settings, made once."""
        from backstory.runs.record import SUMMARIZING
        from backstory.summaries.choice import make_summarizer

        settings = self.settings.summaries
        if settings.paid_model is None:
            return make_summarizer(settings, self.drafts)
        return make_summarizer(settings, self.drafts, self.runs.meter(SUMMARIZING, settings.paid_model))

    @cached_property
    def judgements(self) -> JudgementCache:
        """The judgements that rerankers have given."""
        from backstory.rerankers.judgement_cache import JudgementCache

        return JudgementCache(self.tables / "judgements.sqlite")

    @cached_property
    def drafts(self) -> DraftCache:
        """The drafts that writers have made, and the summaries by models."""
        from backstory.writing.draft_cache import DraftCache

        return DraftCache(self.tables / "drafts.sqlite")

    @property
    def min_similarity(self) -> float:
        """The effective threshold: the setting, or else that of the published snapshot or of the embedder."""
        return find_threshold(self.settings.rag, self.embedder, self.calibration)

    @property
    def calibration(self) -> Calibration:
        """The effective constants of the embedding space: the settings, or else those of the published snapshot.

        Without a snapshot in the embedder's space that can be read, they are the defaults.
        """
        from backstory.index import current_version, read_manifest

        found = DEFAULT_CALIBRATION
        version = current_version(self.index)
        # The examination of the index tells that a manifest is damaged, and the next run makes it again.
        with suppress(SearchIndexError):
            manifest = read_manifest(self.index / version) if version else None
            if manifest is not None and manifest.embedder_id == self.embedder.id:
                found = manifest.calibration
        return found.overridden_by(self.settings.rag)

    @cached_property
    def embeddings(self) -> EmbeddingCache:
        """The cache of vectors that all stages share."""
        return EmbeddingCache(self.tables / "embeddings.sqlite")

    @cached_property
    def job_book(self) -> JobBook:
        """The record of the batch jobs that embed texts."""
        return JobBook(self.tables / "embedding_jobs.sqlite")

    @cached_property
    def embedding_jobs(self) -> EmbeddingJobs | None:
        """The batch mode of the embedder; None for an embedder without one."""
        if self.settings.embedding.provider != "gemini":
            return None
        from backstory.embeddings.batch_jobs import EmbeddingJobs
        from backstory.embeddings.gemini import GeminiEmbedder
        from backstory.embeddings.gemini_jobs import GeminiJobs

        if not isinstance(self.embedder, GeminiEmbedder):
            return None
        settings = self.settings.embedding
        return EmbeddingJobs(
            GeminiJobs(self.embedder),
            self.job_book,
            self.embeddings,
            submits=settings.batch,
            min_texts=settings.batch_min_texts,
        )


def open_workspace(given: Path | None = None, *, accept_removals: bool = False) -> Workspace:
    """Open the workspace named by the caller, the environment or the current folder.

    Args:
        given: A folder, or None to use ``BACKSTORY_WORKSPACE`` or the current folder.
        accept_removals: Whether a run may drop messages or documents that earlier runs read.

    Returns:
        The workspace.

    Raises:
        WorkspaceError: The folder is not a workspace, or its path cannot be used.
        SettingsError: The settings are invalid, or make the same files both chats and documents.
    """
    root = find_workspace(given)
    _require_usable_path(root)
    workspace = Workspace(root, read_settings(root / SETTINGS_FILE), accept_removals)
    _require_folders_apart(workspace)
    return workspace


def _require_usable_path(root: Path) -> None:
    """Raise if DuckDB cannot write below the folder: it takes a question mark in a path for the start of options."""
    if "?" in str(root):
        raise WorkspaceError(
            f"{root} holds a question mark, below which DuckDB cannot write; rename the folder"
        )


def _require_folders_apart(workspace: Workspace) -> None:
    """Raise if the documents are inside the folder of exports. The reverse is fine: exports are skipped there."""
    if workspace.posts.resolve().is_relative_to(workspace.exports.resolve()):
        chats, posts = workspace.settings.conversations.folder, workspace.settings.documents.folder
        raise SettingsError(
            f"{workspace.root / SETTINGS_FILE}: documents.folder ({posts}) is conversations.folder ({chats}) or lies "
            "in it, so that every document would be read as a chat, too; name another folder for one of them, such "
            "as chats and posts"
        )
