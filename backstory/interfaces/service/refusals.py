"""What the service refuses, and how it says so without the places of this machine.

The processes of jobs need this, too, which load nothing of the web.
"""

from __future__ import annotations

import re
from pathlib import Path

from backstory.base.errors import BackstoryError


class RefusedError(BackstoryError):
    """A request that the service refuses.

    Attributes:
        status: The status of the answer.
        retry_after: Seconds after which the client may try again; None if it should not.
    """

    def __init__(self, message: str, *, status: int, code: str, retry_after: float | None = None) -> None:
        super().__init__(message, code=code)
        self.status = status
        self.retry_after = retry_after


def hide_paths(text: str, root: Path) -> str:
    """Cut the place of a folder on this machine out of a text.

    Args:
        text: Such as the message of an error.
        root: Folder of the tenants, or of one of them.
    """
    # A folder whose name only begins like that of the other stays whole.
    return re.sub(rf"{re.escape(str(root))}(?![\w-]|\.\w)", "the service", text.replace(f"{root}/", ""))
