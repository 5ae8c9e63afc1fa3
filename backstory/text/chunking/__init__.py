"""Texts -> chunks: the outline and the units of a text, and how they are packed below a ceiling of tokens."""
