"""Texts -> chunks: the outline, units and pieces of a text, and plans that pack pieces below a token ceiling."""
