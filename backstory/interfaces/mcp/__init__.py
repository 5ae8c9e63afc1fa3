"""The server of the Model Context Protocol: the documents, and the contexts of windows, as tools of any agent."""
