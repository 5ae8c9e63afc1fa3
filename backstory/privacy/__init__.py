"""Real names -> pseudonyms: finding names in texts, replacing them, and proving that none is left."""

from backstory.privacy.pseudonyms import (
    find_real_names,
    load_secret,
    make_pseudonym,
    pseudonymize_messages,
    pseudonymize_sources,
)

__all__ = [
    "find_real_names",
    "load_secret",
    "make_pseudonym",
    "pseudonymize_messages",
    "pseudonymize_sources",
]
