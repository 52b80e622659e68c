"""Small windows over the screen: a question, the filter, the help, an explanation."""

from __future__ import annotations

from typing import ClassVar

from rich.console import RenderableType
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Input, Static


class Question(ModalScreen[bool]):
    """Asks before something is done; only `y` does it.

    Args:
        text: The question.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "dismiss(True)", "yes"),
        Binding("n,escape,q,enter", "dismiss(False)", "no"),
    ]  # fmt: skip

    def __init__(self, text: str) -> None:
        super().__init__()
        self._asked = text

    def compose(self) -> ComposeResult:
        """Puts the window together."""
        with Vertical(classes="window"):
            yield Static(self._asked, markup=False)
            yield Static("y yes   n no", markup=False, classes="keys")


class ReasonWindow(ModalScreen[str | None]):
    """Asks before something is held back, and why it is; None: do not.

    Args:
        text: The question.
    """

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "dismiss(None)", "no")]

    def __init__(self, text: str) -> None:
        super().__init__()
        self._asked = text

    def compose(self) -> ComposeResult:
        """Puts the window together."""
        with Vertical(classes="window"):
            yield Static(self._asked, markup=False)
            yield Input(placeholder="why, for people who ask what a task waits for; may stay empty", max_length=1_000)
            yield Static("enter pause it   esc no", markup=False, classes="keys")

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Takes what was written."""
        self.dismiss(event.value.strip())


class FilterWindow(ModalScreen[str | None]):
    """Asks for a filter; None: leave it as it is.

    Args:
        present: The present one.
    """

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "dismiss(None)", "leave it")]

    def __init__(self, present: str) -> None:
        super().__init__()
        self._present = present

    def compose(self) -> ComposeResult:
        """Puts the window together."""
        with Vertical(classes="window"):
            yield Static("Which tasks, as in `taskyard tasks --filter`; empty: all.", markup=False)
            yield Input(self._present, placeholder='task_type == "shell" && priority < 3')
            yield Static("enter apply   esc leave it", markup=False, classes="keys")

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Takes what was written."""
        self.dismiss(event.value.strip())


class Sheet(ModalScreen[None]):
    """Shows something to be read, as long as it is.

    Args:
        title: What it is about.
        content: What to read.
    """

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q,enter,question_mark,e", "dismiss", "close")]

    def __init__(self, title: str, content: RenderableType) -> None:
        super().__init__()
        self._about = title
        self._read = content

    def compose(self) -> ComposeResult:
        """Puts the window together."""
        with VerticalScroll(classes="window") as window:
            window.border_title = Text(self._about)
            yield Static(self._read, markup=False)
            yield Static("esc close", markup=False, classes="keys")
