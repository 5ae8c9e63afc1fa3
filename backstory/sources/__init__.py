"""Further sources of documents beside the folder of documents: which there are, and what they hold."""

from backstory.sources.added import add_source, list_added, readmit, remove_source
from backstory.sources.roots import Source, list_sources

__all__ = ["Source", "add_source", "list_added", "list_sources", "readmit", "remove_source"]
