"""The site of a workspace: a page for each post, with the documents it used and the posts that cite it."""

from backstory.site.build import Site, build_site

__all__ = ["Site", "build_site"]
