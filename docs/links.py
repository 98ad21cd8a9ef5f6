"""Every link between the built pages leads somewhere: `python docs/links.py FOLDER` names those that do not.

Those in HTML, which Sphinx passes on unread, and those to pages that other scripts write. Links to other sites are not
followed: a build needs no network.
"""

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class Page(HTMLParser):
    """The links of a page, and the places in it that can be linked to."""

    def __init__(self, path):
        super().__init__()
        self.links, self.places = [], set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        self.links += [attributes[name] for name in ("href", "src") if attributes.get(name)]
        self.places |= {attributes["id"]} if "id" in attributes else set()


def broken(folder):
    """Lines "page: link" of the HTML files below a folder whose target is no file there, or has no such place."""
    pages = {path.resolve(): Page(path) for path in sorted(Path(folder).rglob("*.html"))}
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            place = "" if "=" in parts.fragment else unquote(parts.fragment)  # a setting of the page is no place
            if not target.exists() or (place and target in pages and place not in pages[target].places):
                yield f"{path.relative_to(Path(folder).resolve())}: {link}"


if __name__ == "__main__":
    lost = [*broken(sys.argv[1])]
    print(*lost, sep="\n", file=sys.stderr)
    sys.exit(bool(lost))
