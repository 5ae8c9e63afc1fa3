"""The public names of the original design, as thin functions over the library."""
