"""Writers: from a window and its context to a post, and from the post to a file."""

from backstory.writing.draft import Draft, Writer
from backstory.writing.material import Citation, ContextMaterial, WindowMaterial, WindowMessage

__all__ = ["Citation", "ContextMaterial", "Draft", "WindowMaterial", "WindowMessage", "Writer"]
