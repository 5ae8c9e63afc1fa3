"""Texts -> chunks: outline, units and pieces of a text, and the plans that pack them below a token ceiling."""
