"""Selects from the hits of a window, with a reason for each."""
