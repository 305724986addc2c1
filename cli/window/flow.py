"""From streamed Markdown to lines: those that are final, and those that may still change."""

from __future__ import annotations

from rich.text import Text

from edgedec.cli import screen
from edgedec.cli.window.code import highlighted
from edgedec.cli.window.inline import closed, styled
from edgedec.cli.window.leaves import Leaf, decided, leaves, parser
from edgedec.cli.window.styles import Styles
from edgedec.cli.window.tables import CellTable, drawn
from edgedec.cli.window.wrap import wrapped

_RULE_CELLS = 40


class Flow:
    """A Markdown text that grows. ``take`` returns each of its lines once it is final.

    Blocks are parsed again until they are complete, those before them never.
    """

    def __init__(self, styles: Styles) -> None:
        self._styles = styles
        self._source = ""
        """The text from the outermost block in progress on."""
        self._leaf = 0
        """The block in progress, counted from the beginning of ``_source``."""
        self._begun = False
        """Whether the blank line before that block has been printed."""
        self._done = 0
        """Characters of the block (of code: lines) that have been printed."""
        self._ruled = False
        """Whether the rule below that block, of code, has been printed."""
        self._shown = 0
        """Characters of the block that stand in the window, with those that are not final."""

    def push(self, text: str) -> None:
        """Add text to the end."""
        self._source += screen.harmless(text)

    def take(self, width: int, *, final: bool = False) -> tuple[list[Text], list[Text]]:
        """Return the lines that have become final, and the lines after them as they are now.

        ``width`` is in cells. With ``final`` the text is complete, so all lines are.
        """
        source = self._source if final else decided(self._source)
        found = leaves(source, self._styles)
        lines: list[Text] = []
        live: list[Text] = []
        for at in range(self._leaf, len(found)):
            leaf = found[at]
            if at > self._leaf:
                self._leaf, self._begun, self._done, self._ruled = at, False, 0, False
            if not self._begun:
                lines += self._gap(found[at - 1] if at else None, leaf)
                lines += [self._rule(width)] if leaf.kind == "code" else []
                self._begun = True
            last = at == len(found) - 1 and not final
            ready, live = self._lines(leaf, width, source if last else None)
            lines += ready
        if found:
            self._cut(found)
        return lines, live

    def skip(self, width: int) -> None:
        """Take all text so far for printed; a line of code that is not complete is printed again."""
        found = leaves(self._source, self._styles)
        self.take(width, final=True)
        if found and found[-1].kind == "code":
            self._ruled = found[-1].closed
            self._done -= not self._source.endswith("\n")

    def freeze(self) -> None:
        """Take the lines of a paragraph that stand in the window for final, as they are."""
        self._done = max(self._done, self._shown)

    def _cut(self, found: list[Leaf]) -> None:
        top = found[-1].top
        outside = next(at for at, leaf in enumerate(found) if leaf.top == top)
        if outside and self._leaf == len(found) - 1:
            self._source = "\n".join(self._source.split("\n")[top:])
            self._leaf -= outside

    def _gap(self, before: Leaf | None, leaf: Leaf) -> list[Text]:
        """Return the blank line before a block, where its source has one or code begins or ends."""
        if before is None:
            return []
        code = "code" in (before.kind, leaf.kind)
        return [Text()] if code or leaf.start > before.end else []

    def _lines(self, leaf: Leaf, width: int, source: str | None) -> tuple[list[Text], list[Text]]:
        """Return final and other lines of a block. ``source`` ends with it if it may grow, else is None."""
        open_ = source is not None
        if leaf.kind == "code":
            ready, live = self._code(leaf, cut=source is not None and not source.endswith("\n"))
            if not open_ and not self._ruled:
                self._ruled = True
                ready.append(self._rule(width))
            return ready, live
        if leaf.kind in ("rule", "table"):
            inner = width - len(leaf.rest)
            made = self._table(leaf, inner) if leaf.kind == "table" else [self._rule(inner)]
            made = [self._indented(leaf, line, first=not at) for at, line in enumerate(made)]
            return ([], made) if open_ else (made, [])
        return self._paragraph(leaf, width, open_)

    def _paragraph(self, leaf: Leaf, width: int, open_: bool) -> tuple[list[Text], list[Text]]:
        token, pending = leaf.inline, False
        children = token.children or []
        if open_:
            source, pending = closed(token.content)
            children = parser().parseInline(source)[0].children or []
        text = styled(children, self._styles)
        if leaf.kind == "heading":
            text.stylize(self._styles.title if leaf.tokens[0].tag == "h1" else self._styles.bold)
        while self._done and text.plain[self._done : self._done + 1] == " ":
            self._done += 1
        rest = text[self._done :] if self._done < len(text) else Text()
        if not rest and self._done:
            return [], []
        made = wrapped(rest, width - len(leaf.rest))
        ready = 0 if pending else len(made) - 1 if open_ else len(made)
        lines = [
            self._indented(leaf, line, first=not at and not self._done) for at, (_, line) in enumerate(made)
        ]
        self._shown = len(text)
        if ready:
            self._done += made[ready - 1][0]
        return lines[:ready], lines[ready:]

    def _code(self, leaf: Leaf, *, cut: bool) -> tuple[list[Text], list[Text]]:
        token = leaf.tokens[0]
        language = token.info.split()[0].lower() if token.info.strip() else ""
        content = token.content.removesuffix("\n")
        lines = highlighted(content, language, self._styles) if token.content else []
        ready = lines[self._done : -1] if cut else lines[self._done :]
        live = lines[-1:] if cut else []
        self._done += len(ready)
        return ready, live

    def _rule(self, width: int) -> Text:
        return Text(self._styles.dash * min(width, _RULE_CELLS), self._styles.dim)

    def _table(self, leaf: Leaf, width: int) -> list[Text]:
        table, row = CellTable([], []), list[Text]()
        for token in leaf.tokens:
            if token.type == "th_open":
                table.right.append("right" in str(token.attrs.get("style", "")))
            elif token.type == "inline":
                row.append(styled(token.children or [], self._styles))
            elif token.type == "tr_close":
                table.rows.append(row)
                row = []
        return drawn(table, width, self._styles)

    def _indented(self, leaf: Leaf, line: Text, *, first: bool) -> Text:
        indent = leaf.first if first else leaf.rest
        style = self._styles.dim if leaf.rest.strip() else ""
        return Text.assemble((indent, style), line) if indent else line
