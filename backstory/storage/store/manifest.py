"""The manifest of a store: which object is the content of each file, and the ledger entries that go with them."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Any, Final, TypeAlias, TypeVar

from backstory.base.errors import StoreError
from backstory.storage.tables.ledger import Entry
from backstory.storage.tables.schemas import TABLES

MANIFEST: Final = "manifest.json"
"""Name of the manifest in the store. To replace it is to publish."""

KEPT: Final = timedelta(hours=24)
"""How long an object stays after no manifest names it: no reader takes a day for the files of one manifest."""

_FORMAT: Final = 1
_PLAIN_BYTES: Final = 65_536
"""Up to this size a manifest is plain JSON, which a person can read in any browser of buckets."""
_MOST_NAMED: Final = 3


@dataclass(frozen=True)
class SharedFile:
    """One file.

    Attributes:
        sha256: Hash of its content, which names its object.
        size: Bytes.
        changed_at: Time of the last change in nanoseconds since 1970, for inputs: chats without years are dated by it.
            None for what Backstory writes. It is no change of the file if only this changes.
    """

    sha256: str
    size: int
    changed_at: int | None = field(default=None, compare=False)


Item: TypeAlias = SharedFile | Entry
"""What a manifest holds under one key."""
ItemKey: TypeAlias = tuple[str, str]
"""Table and partition of a ledger entry; an empty table and the path of a file."""
FILE: Final = ""
"""The table of an :data:`ItemKey` that names a file."""
_Value = TypeVar("_Value")


@dataclass(frozen=True)
class SettingsChange:
    """The publication that changed the settings last.

    Attributes:
        hashes: Hash of each setting that is not the default, by its name, such as ``partitions.grain``.
        worker: Machine and folder of who published; empty if it is not known.
        at: When, UTC.
    """

    hashes: Mapping[str, str] = field(default_factory=dict)
    worker: str = ""
    at: str = ""

    def name_differences(self, other: SettingsChange) -> list[str]:
        """List the settings that are not the same in another one, by name."""
        names = {*self.hashes, *other.hashes}
        return sorted(name for name in names if self.hashes.get(name) != other.hashes.get(name))


@dataclass(frozen=True)
class Manifest:
    """What one publication put in place.

    Attributes:
        files: The files by their path in the workspace.
        ledger: The ledger entries by table and partition.
        settings: Hash of the settings that the tables follow from; empty if nothing is published.
        tokens: The highest fencing token that published, by lease.
        dropped: When an object was last named by a manifest, UTC, for those that are no longer; by hash.
        change: Which publication the settings are of.
    """

    files: Mapping[str, SharedFile] = field(default_factory=dict)
    ledger: Mapping[str, Mapping[str, Entry]] = field(default_factory=dict)
    settings: str = ""
    tokens: Mapping[str, int] = field(default_factory=dict)
    dropped: Mapping[str, str] = field(default_factory=dict)
    change: SettingsChange = field(default_factory=SettingsChange)

    @property
    def items(self) -> dict[ItemKey, Item]:
        """Files and ledger entries as one map."""
        entries = {
            (table, key): entry for table, found in self.ledger.items() for key, entry in found.items()
        }
        return {**{(FILE, path): file for path, file in self.files.items()}, **entries}

    @property
    def objects(self) -> set[str]:
        """The hashes of all objects."""
        return {file.sha256 for file in self.files.values()}

    def has_same_content(self, other: Manifest) -> bool:
        """Return whether another manifest puts the same bytes in place."""
        return (self.files, self.ledger, self.settings) == (other.files, other.ledger, other.settings)

    def follow(self, earlier: Manifest, now: datetime) -> Manifest:
        """Take over what the earlier manifest knows besides the content: tokens, and when what was changed."""
        gone = {sha256: now.isoformat() for sha256 in earlier.objects - self.objects}
        oldest = (now - KEPT).isoformat()
        known = {
            sha256: since
            for sha256, since in earlier.dropped.items()
            if since > oldest and sha256 not in self.objects
        }
        tokens = {**earlier.tokens, **self.tokens}
        is_known = self.settings == earlier.settings and earlier.change.worker
        change = earlier.change if is_known else self.change
        if change.worker and not change.at:
            change = replace(change, at=now.isoformat(timespec="seconds"))
        return Manifest(self.files, self.ledger, self.settings, tokens, {**known, **gone}, change)

    def encode(self) -> bytes:
        """Write it as canonical JSON, compressed if it is large: equal manifests are equal bytes.

        A file name may be any bytes, so those that are no UTF-8 are written as they are.
        """
        return self._encoded  # a publication writes it to the store, and to the folder

    @cached_property
    def _encoded(self) -> bytes:
        content = {
            "format": _FORMAT,
            "settings": self.settings,
            "change": asdict(self.change),
            "tokens": dict(self.tokens),
            "dropped": dict(self.dropped),
            "files": {
                path: [file.sha256, file.size, *([] if file.changed_at is None else [file.changed_at])]
                for path, file in self.files.items()
            },
            "ledger": {
                table: {key: [entry.inputs, entry.content, entry.rows] for key, entry in entries.items()}
                for table, entries in self.ledger.items()
                if entries
            },
        }
        text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        plain = text.encode("utf-8", "surrogateescape")
        return plain if len(plain) <= _PLAIN_BYTES else gzip.compress(plain, compresslevel=6, mtime=0)


def make_manifest(items: Mapping[ItemKey, Item], settings: str, change: SettingsChange) -> Manifest:
    """Make a manifest of files and ledger entries in one map."""
    files: dict[str, SharedFile] = {}
    ledger: dict[str, dict[str, Entry]] = {}
    for (table, key), item in items.items():
        if isinstance(item, SharedFile):
            files[key] = item
        else:
            ledger.setdefault(table, {})[key] = item
    return Manifest(files, ledger, settings, change=change)


def decode_manifest(content: bytes, address: str) -> Manifest:
    """Read what :meth:`Manifest.encode` wrote.

    Args:
        content: The object.
        address: Where it lies, for the error.

    Raises:
        StoreError: It is damaged, or of another format (code ``damaged_manifest``).
    """
    try:
        plain = gzip.decompress(content) if content.startswith(b"\x1f\x8b") else content
        found = json.loads(plain.decode("utf-8", "surrogateescape"))
        if found["format"] != _FORMAT:
            raise ValueError(f"format {found['format']}, and this version of Backstory reads {_FORMAT}")
        return Manifest(
            {str(path): _read_file(listed) for path, listed in found["files"].items()},
            {
                str(table): {
                    str(key): Entry(str(inputs), str(content), int(rows))
                    for key, (inputs, content, rows) in entries.items()
                }
                for table, entries in found["ledger"].items()
            },
            str(found["settings"]),
            {str(name): int(token) for name, token in found["tokens"].items()},
            {str(sha256): str(since) for sha256, since in found["dropped"].items()},
            _read_change(found.get("change")),
        )
    except (
        OSError,
        EOFError,
        zlib.error,
        ValueError,
        KeyError,
        TypeError,
        AttributeError,
        RecursionError,
    ) as error:
        raise StoreError(
            f"{address}/{MANIFEST} is damaged or of another version ({error}); restore it from a version of the "
            f"bucket, or delete it and run `backstory storage copy --to {address}` on a worker that is up to date",
            code="damaged_manifest",
            address=address,
        ) from error


def _read_change(told: Mapping[str, Any] | None) -> SettingsChange:
    """Read who changed the settings, which manifests of earlier releases do not tell."""
    if told is None:
        return SettingsChange()
    hashes = {str(name): str(value) for name, value in told["hashes"].items()}
    return SettingsChange(hashes, str(told["worker"]), str(told["at"]))


def _read_file(listed: list[Any]) -> SharedFile:
    sha256, size, *changed = listed
    return SharedFile(str(sha256), int(size), int(changed[0]) if changed else None)


def merge(
    base: Mapping[ItemKey, _Value], ours: Mapping[ItemKey, _Value], theirs: Mapping[ItemKey, _Value]
) -> tuple[dict[ItemKey, _Value], set[ItemKey]]:
    """Join the changes that two workers made to one state.

    Args:
        base: The state that both began with.
        ours: What this worker has.
        theirs: What the store has.

    Returns:
        The joined state, in which what both changed is as in ``theirs``; and the keys of what both changed otherwise.
    """
    merged, conflicts = {}, set()
    for key in {*base, *ours, *theirs}:
        before, mine, other = base.get(key), ours.get(key), theirs.get(key)
        value = mine if other == before else other
        if other not in (mine, before) and mine != before:
            conflicts.add(key)
        if value is not None:
            merged[key] = value
    return merged, conflicts


def join_publications(base: Manifest, ours: Manifest, theirs: Manifest, address: str) -> Manifest:
    """Join a publication with one that came first, if they changed different files and partitions.

    What the ledger only remembers besides the tables is left out where both changed it; the next run finds it again.

    Raises:
        StoreError: Both changed the same file, partition or the settings (code ``conflicting_publication``).
    """
    merged, conflicts = merge(base.items, ours.items, theirs.items)
    remembered = {key for key in conflicts if key[0] not in TABLES and key[0] != FILE}
    problems = sorted(conflicts - remembered)
    if ours.settings not in (base.settings, theirs.settings) and theirs.settings != base.settings:
        problems.append((FILE, "backstory.yaml"))
    if problems:
        raise StoreError(
            f"another worker published to {address} meanwhile and changed what this one changed, too: "
            f"{name_items(problems)}; run the same command again, which begins with what the other published",
            code="conflicting_publication",
            address=address,
            changed=tuple(problems),
        )
    named = theirs if ours.settings in (base.settings, theirs.settings) else ours
    items = {key: item for key, item in merged.items() if key not in remembered}
    return make_manifest(items, named.settings, named.change)


def name_items(keys: Iterable[ItemKey]) -> str:
    """Name some of the files and partitions for a person."""
    names = [key if table == FILE else f"{table} {key}" for table, key in keys]
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return ", ".join(names[:_MOST_NAMED]) + more


def utc_now() -> datetime:
    """Return the time of this machine's clock."""
    return datetime.now(UTC)
