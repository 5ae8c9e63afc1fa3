"""Files: written atomically, opened safely, matched by patterns, read while they hold still."""
