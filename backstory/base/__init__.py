"""What any program needs: errors, the environment, files, logs, wording and the process that reads."""

VERSION = "0.1.0"
"""The version of the library, also that of the package."""
