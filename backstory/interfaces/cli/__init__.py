"""The command ``backstory``: a thin layer over the library's functions."""
