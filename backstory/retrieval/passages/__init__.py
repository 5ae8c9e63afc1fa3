"""Passages: the sentences of a chosen chunk, or of its neighbours, that match the parts of a window."""
