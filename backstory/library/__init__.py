"""The documents of a workspace as a library: search, reading and indexing for people, programs and agents."""

from backstory.library.library import Library

__all__ = ["Library"]
