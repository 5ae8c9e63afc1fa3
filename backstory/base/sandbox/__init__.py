"""Reading untrusted files in a separate process with limits of time and memory."""
