"""Summaries of one document: its sections, what is chosen or written of each, and what becomes of a failed one."""
