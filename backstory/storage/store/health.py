"""Tries a store as workers use it: how long a call takes, whether conditions hold, and what its clock says."""

from __future__ import annotations

import time
import uuid
from dataclasses import dataclass
from statistics import median
from typing import Final

from backstory.base.errors import StoreError
from backstory.storage.store.manifest import utc_now
from backstory.storage.store.objects import ObjectStore

MOST_CLOCK_SECONDS: Final = 600.0
"""Difference of clocks up to which S3 takes requests for certain: it refuses those that are 15 minutes off."""
_CALLS: Final = 5


@dataclass(frozen=True)
class StoreHealth:
    """How a store answers.

    Attributes:
        call_seconds: Median time of a small call.
        clock_seconds: How far its clock is ahead of this machine's; negative if behind. It is known to the second.
    """

    call_seconds: float
    clock_seconds: float


def try_store(store: ObjectStore) -> StoreHealth:
    """Write, replace, read and delete one small object.

    Args:
        store: The store.

    Raises:
        StoreError: The store cannot be used; it writes though the condition does not hold, so that two workers would
            overwrite each other (code ``no_conditions``); or its clock is apart by more than
            :data:`MOST_CLOCK_SECONDS` (``clock_apart``).
    """
    name = f"trial-{uuid.uuid4().hex}"
    store.read(name)  # tells an absent bucket from an absent object
    try:
        etag = store.replace(name, b"1", None)
        if etag is None or store.replace(name, b"2", None) is not None:
            raise StoreError(
                f"{store.address} writes an object though a condition of the call does not hold, so that two workers "
                "would overwrite each other; use a store with conditional writes (If-Match and If-None-Match)",
                code="no_conditions",
                address=store.address,
            )
        found, seconds = store.find(name), []
        for _ in range(_CALLS):
            started = time.perf_counter()
            store.find(name)
            seconds.append(time.perf_counter() - started)
    finally:
        store.delete([name])
    apart = 0.0 if found is None else (found.changed_at - utc_now()).total_seconds()
    if abs(apart) > MOST_CLOCK_SECONDS:
        raise StoreError(
            f"the clock of {store.address} is {abs(apart):,.0f} seconds {'ahead of' if apart > 0 else 'behind'} this "
            "machine's; set this machine's clock",
            code="clock_apart",
            address=store.address,
            seconds=apart,
        )
    return StoreHealth(median(seconds), apart)
