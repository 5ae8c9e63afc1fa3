"""Checks of the tables: their integrity, and what they say of languages and posts."""
