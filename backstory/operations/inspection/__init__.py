"""Read-only views of a workspace: its content and its consistency, for the commands, the checks and the reports."""
