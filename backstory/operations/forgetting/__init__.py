"""Forgets a conversation, member or document: removes it, excludes it from later runs, searches for leftovers."""
