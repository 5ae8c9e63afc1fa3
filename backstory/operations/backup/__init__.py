"""Backups of a workspace: one file with everything that a later run could not make again, and its checksums."""
