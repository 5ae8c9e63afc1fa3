"""Passages: the sentences of a chosen chunk, or of the chunks beside it, that the parts of a window ask for."""

from backstory.passages.passages import TermsOf, make_passages
from backstory.passages.served import tell_served

__all__ = ["TermsOf", "make_passages", "tell_served"]
