"""The published names of the original design, over the library's own functions."""
