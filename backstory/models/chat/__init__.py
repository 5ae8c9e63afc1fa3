"""Chat models: messages in, an answer out."""
