"""Backups of a workspace: one file with everything that a later run could not make again, and its checksums."""

from backstory.backup.archive import Backup, write_backup
from backstory.backup.restoring import Restored, restore_backup

__all__ = ["Backup", "Restored", "restore_backup", "write_backup"]
