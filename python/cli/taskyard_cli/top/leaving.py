"""When what reads for a screen has to end: before the screen itself is gone."""

from __future__ import annotations

from textual.screen import Screen


class Leaves(Screen[None]):
    """A screen for which something reads in the background."""

    def leaving(self) -> bool:
        """Returns whether it is being taken off: its parts go before what reads for it, which has to end then."""
        return not self.display
