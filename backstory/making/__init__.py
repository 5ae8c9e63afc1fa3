"""Makes tables stage by stage: what is broken is left as it was and named, and the rest is made."""

from backstory.making.tables import Making, Tell, find_broken, make_tables, remembered_cases

__all__ = ["Making", "Tell", "find_broken", "make_tables", "remembered_cases"]
