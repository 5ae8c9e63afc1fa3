"""Further sources of documents beside the folder of documents: which there are, and what they hold."""
