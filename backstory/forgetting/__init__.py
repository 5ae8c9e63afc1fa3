"""Forgets a conversation, member or document: removes it, excludes it from later runs, searches for leftovers."""

from backstory.forgetting.forget import Forgetting, forget

__all__ = ["Forgetting", "forget"]
