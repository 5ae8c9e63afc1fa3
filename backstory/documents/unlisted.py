"""Documents that may still be there, although the listing of their folder does not have them."""

from __future__ import annotations

from collections.abc import Set

from backstory.documents.written import is_of_source, is_written


def is_unlisted(uri: str, places: Set[str]) -> bool:
    """Return whether a document lies where a listing could not look, so that what was read of it is kept.

    Args:
        uri: The document's uri.
        places: The uris of the folders, archives and files that could not be looked into, as in
            :attr:`backstory.documents.files.FolderListing.unlisted`.
    """
    if "" in places and not is_of_source(uri) and not is_written(uri):
        return True
    above = (place for place, letter in enumerate(uri) if letter == "/")
    return uri in places or any(uri[:place] in places or uri[: place + 1] in places for place in above)
