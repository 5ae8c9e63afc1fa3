"""Backups of a workspace: one file with everything that a later run could not rebuild, and its checksums."""
