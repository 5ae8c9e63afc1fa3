"""What a workspace holds and whether it is sound: read-only, for the commands, the checks and the reports."""
