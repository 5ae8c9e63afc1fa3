"""The command ``backstory``: a thin layer over the library's functions."""

from backstory.cli.app import main

__all__ = ["main"]
