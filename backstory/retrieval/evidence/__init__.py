"""The probability that a stored chunk tells something about a part of a window."""
