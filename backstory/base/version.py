"""The version of the library, also that of the package."""

VERSION = "0.1.0"
