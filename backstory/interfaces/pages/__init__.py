"""HTML pages: the report of a window, and the site of posts and documents."""
