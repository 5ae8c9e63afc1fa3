"""LangChain with Chroma, used as its documentation shows, and its pinned requirements."""
