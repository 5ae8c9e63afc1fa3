"""The libraries of six posts."""

from tests.interfaces.library.conftest import indexed_once, library, make_library

__all__ = ["indexed_once", "library", "make_library"]
