"""Files and exports -> messages and document revisions, with pseudonyms in place of names."""
