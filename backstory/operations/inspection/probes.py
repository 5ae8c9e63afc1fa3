"""Probes of what runs have written: each describes a part of a workspace, or says what is wrong and what to do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, Literal, TypeAlias

from backstory.base.errors import BackstoryError, StateError
from backstory.base.wording import count, name_some
from backstory.index.graph import GOOD_RECALL, REMEDY
from backstory.index.snapshot import current_version, find_damage, read_manifest
from backstory.ingest.chats.merging import read_archive
from backstory.ingest.privacy.exclusions import Forgotten
from backstory.ingest.privacy.pseudonyms import is_unmade
from backstory.pipeline.chats.copies import find_stale_copies
from backstory.pipeline.checks.checks import CHECKS, Check, make_check
from backstory.pipeline.history.history import find_trouble
from backstory.pipeline.incremental.visible_documents import find_outdated
from backstory.pipeline.stages.posts import FILES
from backstory.pipeline.workspace import Workspace
from backstory.storage.cache import require_whole_values
from backstory.storage.conversations import ConversationStore
from backstory.storage.tables.schemas import TABLES, Runs
from backstory.storage.tables.views import VIEWS_FILE, find_views_damage
from backstory.storage.turns import is_running
from backstory.writing.post_files import hash_file, inspect_file

Depth: TypeAlias = Literal["always", "quick", "deep"]
"""When a probe is made: always, only without ``--files``, or only with it, where no model is loaded."""

_NAMED: Final = 5


@dataclass(frozen=True)
class Examination:
    """What was checked, whether it is as it should be, and the finding, with what to do if it did not pass."""

    name: str
    passed: bool
    detail: str


class Fault(str):
    """What a probe found wrong, and what to do about it."""

    __slots__ = ()


def examine_one(name: str, look: Callable[[], str]) -> Examination:
    """Build an examination from what a function says of it; a :class:`Fault` or an error says what is wrong."""
    try:
        said = look()
    except (BackstoryError, OSError, ImportError) as error:
        said = Fault(error)
    return Examination(name, not isinstance(said, Fault), str(said))


@dataclass(frozen=True)
class Probe:
    """One check of a workspace: ``look`` describes it, or says what is wrong by a :class:`Fault` or an error.

    A run replaces what ``is_replaced`` in several steps. Between two of these a difference means nothing, so it counts
    only while no run is under way.
    """

    name: str
    look: Callable[[Workspace], str]
    depth: Depth = "always"
    is_replaced: bool = False

    def examine(self, workspace: Workspace) -> Examination:
        """Run the check in a workspace."""
        found = examine_one(self.name, lambda: self.look(workspace))
        # A second look separates a run that ended during the first from a difference that stays.
        for _ in range(2 if self.is_replaced else 0):
            if found.passed:
                return found
            if _is_changing(workspace):
                detail = "not compared, since a run is changing it; check again when the run has ended"
                return Examination(self.name, True, detail)
            found = examine_one(self.name, lambda: self.look(workspace))
        return found


def _is_changing(workspace: Workspace) -> bool:
    """Return whether a run is under way; not known, and taken for no, while the database is away."""
    try:
        return is_running(workspace.catalog.state)
    except StateError:
        return False  # the examination of the catalog says why


def _join_faults(faults: Sequence[str]) -> str:
    """Join some faults to one; an empty text without any."""
    return Fault(name_some(faults, _NAMED, separator="; ")) if faults else ""


def _describe_catalog(workspace: Workspace) -> str:
    workspace.catalog.state.examine()
    if workspace.catalog.state.exists():
        return "can be read"
    store = workspace.tables.store
    if left := next((name for table in TABLES for name in store.list_names(table)), None):
        return Fault(f"the catalog is gone, though there is {left}; `backstory run` makes both again")
    return "not made yet; the first run makes it"


def _describe_cache(workspace: Workspace) -> str:
    workspace.cache.examine()
    vectors, drafts, judgements = workspace.embeddings, workspace.drafts, workspace.judgements
    return f"{vectors.count():,} vectors, {drafts.count():,} drafts, {judgements.count():,} judgements can be read"


def _describe_values(workspace: Workspace) -> str:
    """Read all that no run can make again, and every value of the cache."""
    require_whole_values(workspace.cache)
    archived, talks = len(read_archive(workspace.archive)), ConversationStore(workspace.state).count()
    forgotten = "with" if Forgotten.read(workspace.forgotten).hashes else "without"
    return (
        f"every cached value has its checksum; {archived:,} archived messages and {talks:,} conversations, {forgotten} "
        "a forgotten list, can be read"
    )


def _describe_views(workspace: Workspace) -> str:
    if workspace.settings.storage.files is not None:
        return "not written, since the tables are in a store"
    return Fault(find_views_damage(workspace.tables) or "") or f"{VIEWS_FILE} is as it was written"


def _describe_copies(workspace: Workspace) -> str:
    return _join_faults(find_stale_copies(workspace)) or "none contains data that has left the tables"


def _describe_history(workspace: Workspace) -> str:
    workspace.state.examine()
    described = _describe_table(workspace, Runs.name)
    return described if isinstance(described, Fault) else f"can be read; the table runs has {described}"


def _describe_secret(workspace: Workspace) -> str:
    """Check that the key of the pseudonyms is the one in use, and that only its owner can read it."""
    if not workspace.settings.privacy.pseudonyms:
        return "not used, since privacy.pseudonyms is off"
    path = workspace.secret
    if is_unmade(path, workspace.tables):
        return "not made yet; the first run makes it"
    if workspace.catalog.read("secret") or not path.is_file():  # else loading it would record it
        workspace.load_secret()
    mode = path.stat().st_mode & 0o777
    if mode != 0o600:
        return Fault(f"{path} has mode {mode:o}; run `chmod 600 {path}`")
    return f"{path} is readable by its owner only"


def _describe_table(workspace: Workspace, table: str) -> str:
    """Compare the files of a table with their hashes; their rows were valid when they were written."""
    damaged = workspace.tables.find_damage(table)
    workspace.tables.read(table, sorted(damaged))  # raises what every other reader raises, too
    return (
        _join_faults([*damaged.values()]) or f"{count(len(workspace.tables.keys(table)), 'file')} as written"
    )


def _describe_check(workspace: Workspace, check: Check) -> str:
    """Make a check of the runs over all partitions."""
    finding = make_check(workspace, check, None)
    return f"no {check.what}" if finding.passed else Fault(f"{check.table}: {finding.message}")


def _describe_index(workspace: Workspace) -> str:
    """Compare every file of the published snapshot with its checksum, and look at the recall of its graph."""
    current = current_version(workspace.index)
    if not current:
        if workspace.catalog.read("search_index"):
            return Fault(f"the index in {workspace.index} is gone; `backstory run` rebuilds it")
        return "not built yet; `backstory run` builds it"
    if damage := find_damage(workspace.index / current, checksums=True):
        return Fault(damage)
    manifest = read_manifest(workspace.index / current)
    described = f"snapshot {current}, {manifest.rows} chunks, every file has its checksum"
    recall = manifest.recall_at_5
    if recall is None:
        return f"{described}; searched exactly"
    described += f"; the HNSW index finds {recall:.1%} of the best five"
    return described if recall >= GOOD_RECALL else Fault(f"{described}, below {GOOD_RECALL:.0%}; {REMEDY}")


def _describe_posts(workspace: Workspace) -> str:
    """Compare the files of the posts with those that the last run left, and name those that people have edited."""
    changed, edited = [], []
    files = workspace.catalog.read(FILES)
    for slug, entry in sorted(files.items()):
        path = workspace.posts_dir / f"{slug}.md"
        if not path.is_file():
            changed.append(f"{path} is gone; `backstory run` writes it again")
        elif hash_file(path) != entry.content:
            changed.append(f"{path} was changed since the last run; `backstory run` leaves it as it is")
        elif inspect_file(path) == "edited":
            edited.append(path.name)
    people = f"; people have edited {name_some(edited, _NAMED)}" if edited else ""
    return _join_faults(changed) or f"{len(files):,} as the last run left them{people}"


def _describe_runs(workspace: Workspace) -> str:
    records = workspace.runs.read()
    told = records[0].describe() if records else "none is recorded yet"
    return _join_faults([record.describe() for record in find_trouble(records)]) or told


def _describe_outdated(workspace: Workspace) -> str:
    """Count the partitions that keep contexts of an earlier snapshot; having some is no failure."""
    outdated = find_outdated(workspace)
    if not outdated:
        return "every context is of the published snapshot"
    kept = count(len(outdated), "partition keeps", "partitions keep")
    place = f"contexts of an earlier snapshot ({outdated[0]} to {outdated[-1]})"
    return f"{kept} {place}; `backstory run` searches again, as does the sensor with `partitions.after_posts: all`"


def _describe_names(workspace: Workspace) -> str:
    if not workspace.settings.privacy.pseudonyms:
        return "not looked for, since privacy.pseudonyms is off"
    if not workspace.tables.keys("messages"):
        return "there are no messages whose authors could be named in the tables"
    found = [_describe_check(workspace, check) for check in CHECKS if check.name == "real_names"]
    return _join_faults([one for one in found if isinstance(one, Fault)]) or (
        "no full name of a member, mention or member's phone number in messages and what other tables hold of them; "
        "first names alone, names in documents and phone numbers of others are not looked for (docs/security.md)"
    )


PROBES: Final = (
    *(Probe(f"table {name}", partial(_describe_table, table=name), is_replaced=True) for name in TABLES),
    Probe("catalog", _describe_catalog, is_replaced=True),
    Probe("cache", _describe_cache),
    Probe("views", _describe_views, is_replaced=True),
    Probe("copies", _describe_copies, is_replaced=True),
    Probe("history of runs", _describe_history, is_replaced=True),
    Probe("secret", _describe_secret),
    Probe("search index", _describe_index, is_replaced=True),
    Probe("snapshot of contexts", _describe_outdated, "quick", is_replaced=True),
    Probe("runs", _describe_runs, "quick"),
    Probe("real names", _describe_names, "quick"),
    *(
        Probe(f"{check.table}, {check.name}", partial(_describe_check, check=check), "deep", is_replaced=True)
        for check in CHECKS
        # Hits of partitions that were not rebuilt since a document changed name chunks of its former text.
        if check.name.startswith("unknown_") and check.table != "hits"
    ),
    Probe("kept values", _describe_values, "deep", is_replaced=True),
    Probe("written posts", _describe_posts, "deep", is_replaced=True),
)
"""The probes of what runs have written. Tables come first: what fails since it reads one is said of the table alone."""
