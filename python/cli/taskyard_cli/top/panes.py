"""The tables of the screen: rows that keep their place under the cursor while they change."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text
from textual.widgets import DataTable

from taskyard_cli.show import cut
from taskyard_cli.top.rows import BAD, WARNING, Row, widths

_STYLES = {BAD: "bold red", WARNING: "yellow"}
"""Of the marks, beside which the colours say nothing more."""


class Pane(DataTable[Text]):
    """One table with a title; grows when it has the focus.

    Args:
        title: What it shows.
        columns: Heads.
        empty: What to say when there is no row.
        id: Of the widget.
    """

    def __init__(self, title: str, columns: Sequence[str], empty: str, *, id: str) -> None:
        super().__init__(id=id, cursor_type="row", cell_padding=0, show_header=True)
        self._about = title
        self._heads = columns
        self._nothing = empty
        self._shown: list[Row] = []
        self._note = ""

    def show(self, rows: Sequence[Row], note: str = "") -> None:
        """Shows rows; the cursor stays on the row it is on, or else at its height.

        Args:
            rows: All of them.
            note: What the title says beside its name.
        """
        kept, height = self.chosen, self.cursor_row
        self._shown, self._note = list(rows), note
        # As Text: a filter has brackets, which are no markup.
        self.border_title = Text(f"{self._about} {note}" if note else self._about)
        self._fill()
        keys = [row.key for row in self._shown]
        if self._shown:
            at = keys.index(kept.key) if kept is not None and kept.key in keys else min(height, len(keys) - 1)
            self.move_cursor(row=max(0, at), animate=False)

    def _fill(self) -> None:
        """Writes the rows anew, in columns that fit: to change single cells is no cheaper for so few."""
        self.clear(columns=True)
        if not self._shown:
            self.add_column(self._nothing)
            return
        gaps = len(self._heads) - 1
        room = self.size.width or self.app.size.width  # before the first layout it has no size
        wide = widths(self._heads, self._shown, max(20, room - gaps - 1))
        for head, width in zip(self._heads, wide, strict=True):
            self.add_column(cut(head, width), width=width + 1)
        for row in self._shown:
            style = _STYLES.get(row.cells[0], "")
            self.add_row(*(Text(cut(cell, w), style) for cell, w in zip(row.cells, wide, strict=True)))

    def on_resize(self) -> None:
        """Fits the columns to the new width."""
        self.show(self._shown, self._note)

    @property
    def chosen(self) -> Row | None:
        """The row under the cursor."""
        return self._shown[self.cursor_row] if 0 <= self.cursor_row < len(self._shown) else None
