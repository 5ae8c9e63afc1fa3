"""Incremental recomputation: what rows are made from, and what a stage has made."""
