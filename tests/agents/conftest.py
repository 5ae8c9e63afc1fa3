"""The libraries of six posts."""

from tests.library.conftest import indexed_once, library, make_library

__all__ = ["indexed_once", "library", "make_library"]
