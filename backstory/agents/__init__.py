"""Tools of agents: ten functions over the documents of a workspace, as methods that return plain dictionaries."""

from backstory.agents.document_tools import DocumentTools
from backstory.agents.page_marks import extract_page_from_chunk

__all__ = ["DocumentTools", "extract_page_from_chunk"]
