"""Entries of a prompt: their text, their escaping and the formats of contexts."""
