"""Settings of a workspace: the models, the YAML file, the environment, the template of a new workspace."""
