"""The posts of the digest writer, measured on labelled sets with three kinds of context."""
