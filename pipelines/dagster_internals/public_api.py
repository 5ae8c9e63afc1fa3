"""The release whose private names are known, and the flag that switches to Dagster's public API alone.

The public API is slower, but safe from changes of private names.
"""

import os
from typing import Final

from dagster import __version__ as installed

from backstory.base.errors import WorkspaceError

TESTED_RELEASE: Final = "1.13.27"
"""The release of Dagster with which the private names were compared."""

PUBLIC_VARIABLE: Final = "BACKSTORY_PUBLIC_DAGSTER"
"""Environment variable; ``1`` uses the public API of Dagster alone."""


def uses_public_api() -> bool:
    """Return whether runs, storage and UI use the public API of Dagster alone."""
    return os.environ.get(PUBLIC_VARIABLE) == "1"


def require_tested_release() -> None:
    """Raise if the private names of the installed release are not known, and the public API is not chosen.

    Raises:
        WorkspaceError: The release is another one; the message says how to install the tested one.
    """
    if installed != TESTED_RELEASE and not uses_public_api():
        raise WorkspaceError(
            f"Dagster {installed} is installed, and Backstory's jobs were tested with {TESTED_RELEASE}; run "
            f"`pip install dagster=={TESTED_RELEASE} dagster-webserver=={TESTED_RELEASE}`, or set "
            f"{PUBLIC_VARIABLE}=1 to use only Dagster's public API, which is slower",
            code="untested_dagster",
        )
