"""Writers: from a window and its context to a post, and from the post to a file."""
