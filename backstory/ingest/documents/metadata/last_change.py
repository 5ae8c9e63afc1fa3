"""By when a file was written, from the dates that its program put into its properties."""

from __future__ import annotations

from datetime import datetime
from typing import Final, Literal, NamedTuple, TypeAlias

from backstory.base.local_times import put_in_zone

UpdateOrigin: TypeAlias = Literal["changed", "created", "copied"]
"""What a date was taken from: the last change, the creation, or a creation after the last change, as of a copy."""


class LastChange(NamedTuple):
    """By when all of a file was written.

    Attributes:
        moment: The date; None if the file states none.
        origin: What it was taken from.
    """

    moment: datetime | None = None
    origin: UpdateOrigin = "changed"


NO_CHANGE: Final = LastChange()
"""That of a file that states no date."""


def find_last_change(created: datetime | None, changed: datetime | None) -> LastChange:
    """Choose the later of two dates of a file: by then, all that it holds was written."""
    if created is None:
        return LastChange(changed)
    if changed is None:
        return LastChange(created, "created")
    is_later = put_in_zone(created, "UTC") > put_in_zone(changed, "UTC")
    return LastChange(created, "copied") if is_later else LastChange(changed)
