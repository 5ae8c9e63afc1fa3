"""What the stage ``messages`` reads, keeps and reports of the chats."""
