"""Posts as files for other generators of sites, for Ghost, and for programs that read mail."""
