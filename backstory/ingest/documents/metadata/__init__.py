"""Metadata of a document: front matter, dates, stated fields."""
