"""Tools of agents: ten functions over the documents of a workspace, as methods that return plain dictionaries."""
