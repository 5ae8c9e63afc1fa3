"""LlamaIndex: its pinned requirements, and how its documentation would have it used."""
