"""The site of a workspace: a page for each post, with the documents it used and the posts that cite it."""
