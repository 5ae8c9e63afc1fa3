"""Self-contained HTML pages: of one window, and of an evaluation."""
