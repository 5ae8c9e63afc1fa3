"""Alert a command or a webhook when the set of a workspace's problems changes."""
