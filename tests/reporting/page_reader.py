"""Read a page as a browser would, and complain about what no page may have."""

import base64
from html.parser import HTMLParser
from xml.etree import ElementTree

_VOID = {"meta", "img", "br", "link", "hr", "input"}


class PageReader(HTMLParser):
    """Elements of a page; raises where tags are not closed in order."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self._open: list[str] = []
        self.feed(html)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in _VOID:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self._open and self._open[-1] != "style":
            self.texts.append(data)

    def all(self, tag: str) -> list[dict[str, str | None]]:
        """Attributes of every element of one tag."""
        return [attributes for name, attributes in self.elements if name == tag]

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.texts).split())


def read_page(html: str) -> PageReader:
    """A page that is whole: nothing runs, nothing is fetched, every picture says what it shows, every link lands."""
    page = PageReader(html)
    assert {name for name, _ in page.elements}.isdisjoint({"script", "iframe", "object", "link", "form"})
    for _, attributes in page.elements:
        assert not any(name.startswith("on") for name in attributes)
    for picture in page.all("img"):
        assert len(picture["alt"] or "") > 20
        kind, _, data = (picture["src"] or "").partition(",")
        assert kind == "data:image/svg+xml;base64"
        ElementTree.fromstring(base64.b64decode(data))
    anchors = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
    assert len(set(anchors)) == len(anchors)
    assert {link["href"] for link in page.all("a")} <= {f"#{anchor}" for anchor in anchors}
    return page
