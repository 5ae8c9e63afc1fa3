"""Forgetting a conversation, a member or a document: removed, kept out of later runs, and searched for."""

from backstory.forgetting.forget import Forgetting, forget

__all__ = ["Forgetting", "forget"]
