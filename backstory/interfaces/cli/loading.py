"""Load the modules of a command in less time."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def loading() -> Iterator[None]:
    """Collect no garbage while modules load: they make many objects, all of which stay.

    Python would look through all of them again and again, a tenth of the time of a search. What is loaded is never
    looked through later, either.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
