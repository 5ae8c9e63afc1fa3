"""Sources of documents in addition to the folder of documents: their list, and their files."""
