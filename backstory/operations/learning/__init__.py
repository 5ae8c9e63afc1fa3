"""Learns which documents a community names from the links that its people have set."""
