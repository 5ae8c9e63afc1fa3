"""Documents that may still be there, although the listing of their folder does not have them."""

from __future__ import annotations

from backstory.documents.files import FolderListing
from backstory.documents.written import is_of_source, is_written


def is_unlisted(uri: str, listing: FolderListing) -> bool:
    """Return whether a document lies where a listing could not look, so that what was read of it is kept.

    Args:
        uri: The document's uri.
        listing: The listing, with the uris of the folders, archives and files that it could not look into.
    """
    return any(_is_within(uri, place) for place in listing.unlisted)


def _is_within(uri: str, place: str) -> bool:
    if not place:  # the folder of documents itself, and no other source
        return not is_of_source(uri) and not is_written(uri)
    return uri == place or uri.startswith(place if place.endswith("/") else f"{place}/")
