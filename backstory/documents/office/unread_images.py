"""What is said of the images in a document, which are not read."""

from __future__ import annotations

from typing import Final

_LITTLE_TEXT: Final = 400
"""Characters for each image below which the images are likely to hold what the document says."""


def describe_images(text: str, images: int) -> str | None:
    """Say that images were not read if the document has little text beside them; None otherwise."""
    if not images or len(text) >= _LITTLE_TEXT * images:
        return None
    return f"{_count(images)} not read; export the document as PDF, whose images can be recognised"


def mention_images(images: int) -> str:
    """Say what to do about a document without text, as the end of a sentence."""
    if images:
        return f", and {_count(images)} not read; export it as PDF, whose images can be recognised"
    return "; write some, or remove the file"


def _count(images: int) -> str:
    return "1 image was" if images == 1 else f"{images:,} images were"
