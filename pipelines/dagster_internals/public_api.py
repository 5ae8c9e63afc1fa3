"""The flag that switches to Dagster's public API alone: slower, but safe from changes of private names."""

import os
from typing import Final

PUBLIC_VARIABLE: Final = "BACKSTORY_PUBLIC_DAGSTER"
"""Environment variable; ``1`` uses the public API of Dagster alone."""


def uses_public_api() -> bool:
    """Return whether runs, storage and UI use the public API of Dagster alone."""
    return os.environ.get(PUBLIC_VARIABLE) == "1"
