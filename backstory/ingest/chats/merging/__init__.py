"""Merges exports of one conversation that overlap."""
