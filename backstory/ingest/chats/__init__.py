"""Chat exports to messages: one reader per format, in one registry."""
