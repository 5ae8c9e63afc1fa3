"""The search index: chunks and vectors -> a published, immutable snapshot, and the search over it."""

from backstory.index.request import Filters, SearchRequest
from backstory.index.result import SearchResult
from backstory.index.search import SearchIndex
from backstory.index.snapshot.build import IndexBuild, build_index
from backstory.index.snapshot.manifest import read_manifest
from backstory.index.snapshot.opening import open_index, open_last_good
from backstory.index.snapshot.publication import current_version

__all__ = [
    "Filters",
    "IndexBuild",
    "SearchIndex",
    "SearchRequest",
    "SearchResult",
    "build_index",
    "current_version",
    "open_index",
    "open_last_good",
    "read_manifest",
]
