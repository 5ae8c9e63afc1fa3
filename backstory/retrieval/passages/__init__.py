"""Passages: the sentences of a chosen chunk, or of the chunks beside it, that the parts of a window ask for."""
