"""Links of the pages: as written they lead through the repository, in the site through the site."""

from __future__ import annotations

import posixpath
import re

LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s]+)\)")
CODE = re.compile(r"(^```.*?^```$)", re.DOTALL | re.MULTILINE)
PAGES = {"README.md": "index.md", "CHANGELOG.md": "changelog.md"}
"""Files of the repository's root that are pages under another name."""


def in_site(text: str, page: str, known: set[str]) -> str:
    """The page's text with links for the site; what the site does not have becomes plain text.

    page: where the page is in the site; known: all files of the site.
    """
    source = _in_repository(page)

    def changed(link: re.Match[str]) -> str:
        mark, words, target = link.groups()
        if re.match(r"[a-z]+:|#", target):
            return link[0]
        path, _, anchor = target.partition("#")
        found = _in_site(posixpath.normpath(posixpath.join(posixpath.dirname(source), path)))
        if found not in known and not mark and not found.endswith((".md", ".png", ".gif")):
            return words
        relative = posixpath.relpath(found, posixpath.dirname(page) or ".")
        return f"{mark}[{words}]({relative}{'#' if anchor else ''}{anchor})"

    parts = CODE.split(text)  # code, which is left as it is, at odd places
    return "".join(p if i % 2 else LINK.sub(changed, p) for i, p in enumerate(parts))


def _in_repository(page: str) -> str:
    """Where a page of the site is in the repository."""
    if page == "changelog.md":
        return "CHANGELOG.md"
    return page if page.startswith("results/") else f"docs/{page}"


def _in_site(path: str) -> str:
    """Where a file of the repository is in the site."""
    return PAGES.get(path, path.removeprefix("docs/"))
