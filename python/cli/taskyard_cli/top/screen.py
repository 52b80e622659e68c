"""The screen: a headline, four tables, and the loop that reads for them."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import ClassVar

from google.protobuf.message import Message
from textual import work
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.widgets import DataTable, Footer, Static
from textual.worker import WorkerFailed

from taskyard_cli.show import harmless
from taskyard_cli.top import rows
from taskyard_cli.top.acting import ActsOnTask
from taskyard_cli.top.dialogs import FilterWindow, Sheet
from taskyard_cli.top.figures import History
from taskyard_cli.top.headline import cluster_line, rate_line, trouble, work_line
from taskyard_cli.top.holding import HoldsQueues
from taskyard_cli.top.panes import Pane
from taskyard_cli.top.reading import MOST, Reader, Snapshot
from taskyard_cli.top.task_screen import TaskScreen
from taskyard_cli.top.terminal import ended_by_signals
from taskyard_client import InvalidInput, TaskyardError, Unavailable

SHARE = 10
"""Between two readings lies at least so many times as long as a reading takes: a slow scheduler is asked less."""

HELP = """\
arrows, page up/down   go through the rows of a table
tab, 1 2 3 4           go to the next table, to QUEUES, WORKERS, RUNNING, FAILED
enter                  open the task of the row; of a queue its first task; of a worker: show only its tasks
l                      follow the task's logs
e                      explain why the task is where it is
c                      cancel the task (asks first)
r                      run the task again (asks first)
f                      filter RUNNING and FAILED, as `taskyard tasks --filter` does
p                      pause and go on: nothing is read meanwhile
P                      pause the queue of the row (asks first), or let it go on that is paused by itself
?                      this page
q, Ctrl-C              end

! needs somebody: nothing moves by itself.  ~ may need somebody.
QUEUES begin with what no worker can take, then by age. Times and ages are by the clocks of scheduler and screen."""


class Main(ActsOnTask, HoldsQueues):
    """What is seen first.

    Args:
        reader: Reads the snapshots.
        first: The first one.
        address: Of the scheduler.
        interval: Seconds between two readings.
        filter: Which tasks are shown.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "open", "open"),
        Binding("l", "logs", "logs"),
        Binding("e", "explain", "explain"),
        Binding("c", "cancel", "cancel"),
        Binding("r", "retry", "retry"),
        Binding("f", "filter", "filter"),
        Binding("p", "pause", "pause"),
        Binding("P", "hold", show=False),
        Binding("question_mark", "help", "help"),
        Binding("q", "app.quit", "quit"),
        Binding("1", "pane('queues')", show=False),
        Binding("2", "pane('workers')", show=False),
        Binding("3", "pane('running')", show=False),
        Binding("4", "pane('failed')", show=False),
    ]  # fmt: skip

    def __init__(self, reader: Reader, first: Snapshot, address: str, *, interval: float, filter: str) -> None:
        super().__init__()
        self.client = reader.client
        self.snapshot = first
        self.readings = 0
        self.turns = 0  # how often it was time to read, whether or not it was paused
        self.rest_s = interval  # until it is again
        self._reader = reader
        self._address = address
        self._interval = interval
        self._filter = filter
        self._good_filter = filter
        self._history = History()
        self._trouble = ""
        self._since: datetime | None = None
        self._paused = False
        self._acted = False  # what was read last is no longer so
        self._wake = asyncio.Event()

    def compose(self) -> ComposeResult:
        """Puts the screen together."""
        with Vertical(id="headline"):
            for name in ("cluster", "rate", "work", "trouble"):
                yield Static("", markup=False, id=name)
        yield Pane("1 QUEUES", rows.QUEUES, "nothing waits", id="queues")
        yield Pane("2 WORKERS", rows.WORKERS, "no workers; `taskyard worker` starts one", id="workers")
        yield Pane("3 RUNNING", rows.RUNNING, "nothing runs", id="running")
        yield Pane("4 FAILED", rows.FAILED, "no failures", id="failed")
        yield Footer(show_command_palette=False)

    def on_mount(self) -> None:
        """Shows the first snapshot and begins to read."""
        self._pane("running").focus()
        self._history.take(self.snapshot.at, self.snapshot.status)
        self._show()
        self._read()

    # Reading.

    @work
    async def _read(self) -> None:
        """Reads for ever; what goes wrong is said, and the last good snapshot stays."""
        while not self.leaving():
            try:
                await asyncio.wait_for(self._wake.wait(), self.rest_s)
            except TimeoutError:
                pass
            self._wake.clear()
            self.rest_s = self._interval if self._paused else max(self._interval, SHARE * await self._read_once())
            self.turns += 1

    async def _read_once(self) -> float:
        """Reads and shows a snapshot; returns how many seconds that was work for the scheduler."""
        begun = asyncio.get_running_loop().time()
        if self._acted:
            self._acted = False
            self._reader.forget()
        try:
            self.snapshot = await self._reader.read(self._filter, self._room())
        except TaskyardError as error:
            self._failed(error)
            if isinstance(error, Unavailable):
                begun = math.inf  # nobody was there who could have worked: whoever comes back is seen soon
        else:
            self._good_filter, self._since, self._trouble = self._filter, None, ""
            self._history.take(self.snapshot.at, self.snapshot.status)
        took = max(0.0, asyncio.get_running_loop().time() - begun)
        self.readings += 1
        if not self.leaving():
            self._show()
        return took

    def _failed(self, error: TaskyardError) -> None:
        if isinstance(error, InvalidInput) and self._filter != self._good_filter:
            self._filter = self._good_filter
            self.notify(error.message, title="the filter is refused", severity="error", timeout=10, markup=False)
            self._wake.set()
            return
        self._since = self._since or datetime.now(UTC)
        self._trouble = f"! {trouble(error, self._since)}"
        self._history.gap()

    def _room(self) -> int:
        """Returns how many rows of a table anybody can see: no more are asked for."""
        return min(MOST, max(20, self.size.height))

    # Showing.

    def _show(self) -> None:
        found, now = self.snapshot, self.snapshot.time
        told = {
            "cluster": cluster_line(found.status, self._address),
            "rate": rate_line(self._history.now, self._history.line(max(10, self.size.width - 60))),
            "work": work_line(found.status),
            "trouble": self._trouble,
        }
        for name, text in told.items():
            self.query_one(f"#{name}", Static).update(harmless(text))
        self.query_one("#trouble").display = bool(self._trouble)
        self.query_one("#headline").border_title = f"taskyard top {self._note()}"
        self._pane("queues").show(rows.queue_rows(found.queues, now))
        self._pane("workers").show(rows.worker_rows(found.workers, now), _of(found.workers, found.status.workers_known))
        running = _of(found.running, found.status.tasks_in_flight)
        self._pane("running").show(rows.running_rows(found.running, now), self._filtered(running))
        since = f"since {found.failed_since.astimezone():%d %H:%M}" if found.failed_since else ""
        self._pane("failed").show(rows.failed_rows(found.failed, now), self._filtered(since))

    def _note(self) -> str:
        return "PAUSED, p goes on" if self._paused else f"every {self._interval:g} s"

    def _filtered(self, note: str) -> str:
        return f"where {harmless(self._good_filter)}" if self._good_filter else note

    def _pane(self, name: str) -> Pane:
        return self.query_one(f"#{name}", Pane)

    # Keys.

    def _focused(self) -> Pane:
        return self.focused if isinstance(self.focused, Pane) else self._pane("running")

    def task_id(self) -> str:
        """Returns the id of the task of the row under the cursor; of a queue, of its first."""
        row = self._focused().chosen
        return row.task_id if row else ""

    def on_data_table_row_selected(self, event: DataTable.RowSelected) -> None:
        """Enter, which a table keeps to itself."""
        self.action_open()

    def action_open(self) -> None:
        """Opens what the row is about."""
        pane, row = self._focused(), self._focused().chosen
        if row is not None and pane.id == "workers":
            name = row.key.replace("\\", "\\\\").replace('"', '\\"')
            self._apply(f'worker_id == "{name}"')
        elif chosen := self._chosen():
            self.app.push_screen(TaskScreen(self.client, chosen, max(1.0, self._interval)))

    @work
    async def action_filter(self) -> None:
        """Asks for another filter."""
        wanted = await self.app.push_screen_wait(FilterWindow(self._good_filter))
        if wanted is not None:
            self._apply(wanted)

    def _apply(self, filter: str) -> None:
        self._filter = filter
        self._wake.set()

    def action_pause(self) -> None:
        """Reads nothing until it is pressed again."""
        self._paused = not self._paused
        if not self._paused:
            self._history.gap()
            self._wake.set()
        self._show()

    @work
    async def action_hold(self) -> None:
        """Pauses the queue of the row, or lets it go on; what it then is, is read at once."""
        pane, row = self._focused(), self._focused().chosen
        if pane.id != "queues" or row is None:
            self.notify("no queue is chosen: go to one with 1 and the arrows", severity="warning")
            return
        if await self.hold(row):
            self._acted = True
            self._wake.set()

    def action_help(self) -> None:
        """Shows the keys."""
        self.app.push_screen(Sheet("keys", HELP))

    def action_pane(self, name: str) -> None:
        """Goes to a table."""
        self._pane(name).focus()


def _of(shown: Sequence[Message], all: int) -> str:
    return f"{len(shown):,} of {all:,}" if all > len(shown) else f"{len(shown):,}"


class TopApp(App[None]):
    """The screen as a program.

    Args:
        main: What is seen first.
    """

    ENABLE_COMMAND_PALETTE = False
    NOTIFICATION_TIMEOUT = 3  # what is wrong stays longer: it is a sentence to be read
    BINDINGS: ClassVar[list[BindingType]] = [Binding("ctrl+c,ctrl+q", "quit", show=False, priority=True)]
    CSS = """
    #headline { height: auto; border-top: solid $primary; }
    #headline Static { height: 1; text-wrap: nowrap; text-overflow: ellipsis; }
    #trouble { text-style: bold; color: $text-error; }
    #state { height: auto; }
    #open { height: auto; max-height: 5; }
    .head { text-style: bold; }
    Pane { height: 1fr; min-height: 3; border-top: solid $primary; scrollbar-size-vertical: 1;
           scrollbar-size-horizontal: 0; }
    Pane:focus { height: 2fr; border-top: heavy $accent; }
    .window { width: 94%; max-width: 100; height: auto; max-height: 90%; border: round $accent; padding: 0 1;
              background: $surface; }
    .keys { color: $text-muted; }
    ModalScreen { align: center middle; }
    """

    def __init__(self, main: Main) -> None:
        super().__init__()
        self._main = main

    def get_default_screen(self) -> Main:
        """Returns what is seen first."""
        return self._main

    def _fatal_error(self) -> None:
        # Textual would print a traceback with all that is in its frames; what is said of a fault is the guard's.
        self._close_messages_no_wait()


async def show(reader: Reader, first: Snapshot, address: str, *, interval: float, filter: str) -> None:
    """Shows the screen until somebody ends it.

    Args:
        reader: Reads the snapshots.
        first: The first one.
        address: Of the scheduler.
        interval: Seconds between two readings.
        filter: Which tasks are shown.

    Raises:
        Exception: A fault of this program, once the terminal is as it was.
    """
    app = TopApp(Main(reader, first, address, interval=interval, filter=filter))
    with ended_by_signals(app.exit):
        await app.run_async()
    fault = app._exception
    if fault is not None:
        raise fault.error if isinstance(fault, WorkerFailed) else fault
