"""Hooks of MkDocs: files from outside docs/, generated parts of pages, links between them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from generated_pages import GENERATED, commands_page
from links import in_site
from mkdocs.structure.files import File, Files
from options_table import options_table
from pictures import made_pictures

ROOT = Path(__file__).parents[1]
INCLUDED = {"results": "results", "examples": "examples"}
"""Folders of the repository that the pages link to, and where they are in the site."""
SUFFIXES = (".md", ".png", ".csv", ".py")


def on_files(files: Files, config: Any) -> Files:
    """Add pages that are generated, files of other folders, and pictures."""
    for page, path in GENERATED.items():
        content = commands_page() if path is None else (ROOT / path).read_text()
        files.append(File.generated(config, page, content=content))
    for folder, place in INCLUDED.items():
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in SUFFIXES:
                name = f"{place}/{path.relative_to(ROOT / folder).as_posix()}"
                files.append(File.generated(config, name, abs_src_path=str(path)))
    for path in made_pictures(ROOT / "build" / "guide-pictures"):
        files.append(File.generated(config, f"made/{path.name}", abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Links as they are in the site, and the tables that are made from the code."""
    known = {file.src_uri for file in files}
    text = markdown.replace("<!-- table of options -->", options_table())
    return in_site(text, page.file.src_uri, known)
