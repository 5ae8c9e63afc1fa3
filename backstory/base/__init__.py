"""What any program needs: errors, ids, files, SQLite, logs, retries and the sandbox process."""
