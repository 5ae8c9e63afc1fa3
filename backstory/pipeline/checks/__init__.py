"""Checks of the tables: integrity, languages and posts."""
