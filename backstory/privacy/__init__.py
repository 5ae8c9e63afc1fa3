"""Real names -> pseudonyms: finds names in texts, replaces them, and checks that none is left."""

from backstory.privacy.leaks import find_real_names
from backstory.privacy.pseudonyms import make_pseudonym, pseudonymize_messages, pseudonymize_sources
from backstory.privacy.secret_file import is_unmade, load_secret

__all__ = [
    "find_real_names",
    "is_unmade",
    "load_secret",
    "make_pseudonym",
    "pseudonymize_messages",
    "pseudonymize_sources",
]
