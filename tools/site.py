"""Finish the built documentation: order the search index, and check that no page needs anything from elsewhere.

    python -m tools.site site

The search engine has no weights. Of entries that fit alike it shows the first. So guides come first in the index, and
entries of symbols keep their name and lose their text.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

ORDER = ("", "tutorial/", "how-to/", "architectures/", "explanation/", "roadmap/", "reference/", "adr/")
"""The folders of the site, in the order in which the search shows their pages."""
_LOADED = re.compile(
    r"""<(?:script|img|iframe|source|audio|video|embed)\b[^>]*\bsrc=["'](?P<src>[^"']+)"""
    r"""|<link\b(?=[^>]*\brel=["'](?:stylesheet|icon|preload|modulepreload|preconnect|dns-prefetch)\b)[^>]*\bhref=["'](?P<href>[^"']+)"""
    r"""|@import\s+(?:url\()?["']?(?P<sheet>[^"')]+)|url\(["']?(?P<url>[^"')]+)""",
)


def main(site: Path) -> None:
    """Write the index anew, and end with an error if a page loads something from elsewhere."""
    index = site / "search.json"
    index.write_text(
        json.dumps(ordered(json.loads(index.read_text())), ensure_ascii=False, separators=(",", ":"))
    )
    if found := list(from_elsewhere(site)):
        sys.exit("the site loads something from elsewhere:\n" + "\n".join(found))


def ordered(index: Mapping[str, Any]) -> dict[str, Any]:
    """Return the search index with guides first. Of symbols the full names are left, of their members nothing."""
    guides: list[Mapping[str, Any]] = [each for each in index["items"] if not _symbol(each)]
    symbols = [_named(each) for each in index["items"] if _symbol(each) and not _is_member(_symbol(each))]
    return {**index, "items": [*sorted(guides, key=_place), *symbols]}


def _place(item: Mapping[str, Any]) -> int:
    folder, slash, _ = item["location"].partition("/")
    return ORDER.index(f"{folder}/") if slash and f"{folder}/" in ORDER else 0


def _symbol(item: Mapping[str, Any]) -> str:
    """The name of the symbol that an entry is about; empty for a page and a section."""
    page, _, name = item["location"].partition("#")
    return name if page.startswith("reference/") and name.startswith("pilotage.") else ""


def _is_member(symbol: str) -> bool:
    """Whether it is an attribute or a method: what stands in front of the last dot is a class."""
    return symbol.split(".")[-2][:1].isupper()


def _named(item: Mapping[str, Any]) -> dict[str, Any]:
    return {**item, "title": _symbol(item), "text": ""}


def from_elsewhere(site: Path) -> Iterator[str]:
    """Name the addresses of other hosts that pages and style sheets of the site load."""
    for path in sorted((*site.rglob("*.html"), *site.rglob("*.css"), *site.rglob("*.svg"))):
        for found in _LOADED.finditer(path.read_text()):
            address = found[found.lastgroup or 0]
            if re.match(r"(?:https?:)?//", address):
                yield f"{path.relative_to(site)}: {address}"
    for page in sorted(site.rglob("*.html")):
        if re.search(r'<(?:pre|div) class="mermaid"', page.read_text()):
            yield f"{page.relative_to(site)}: a diagram that a script would draw"


if __name__ == "__main__":
    main(Path(sys.argv[1]))
