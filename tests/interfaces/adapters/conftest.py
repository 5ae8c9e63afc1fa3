"""The libraries of the tests of the library itself."""

from tests.interfaces.library.conftest import indexed_once, library

__all__ = ["indexed_once", "library"]
