"""An HTML page as the tests look at it."""

from html.parser import HTMLParser


class Page(HTMLParser):
    """Tags with their attributes, the visible text, the text inside script elements, and table rows as lists of cells."""

    VOID = ("meta", "img", "br")

    def __init__(self, text):
        super().__init__()
        self.tags, self.text, self.scripts, self._open, self.rows = [], [], [], [], []
        self.feed(text)
        assert not self._open, f"left open: {self._open}"

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th"):
            self.rows[-1].append("")
        if tag not in self.VOID:
            self._open.append(tag)

    def handle_endtag(self, tag):
        assert self._open.pop() == tag, tag

    def handle_data(self, data):
        if {"td", "th"} & set(self._open):
            self.rows[-1][-1] += data
        (self.scripts if "script" in self._open else self.text).append(data)

    def all(self, tag):
        return [attrs for name, attrs in self.tags if name == tag]
