"""The command ``backstory``: a thin face of the library's functions."""

from backstory.cli.app import main

__all__ = ["main"]
