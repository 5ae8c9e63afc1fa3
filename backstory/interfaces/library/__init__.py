"""The documents of a workspace as a library: search, reading and indexing for people, programs and agents."""
