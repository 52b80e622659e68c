"""The pure text operations behind the task type `text_process`; docs/text-operations.md specifies them.

Not the task handler, and nothing that does I/O beyond reading its own packaged tables once.
"""

from taskyard_worker.text.clean import clean
from taskyard_worker.text.errors import TextInputError
from taskyard_worker.text.keywords import keywords
from taskyard_worker.text.process import process, process_input
from taskyard_worker.text.split import split
from taskyard_worker.text.statistics import statistics
from taskyard_worker.text.summarize import summarize

__all__ = [
    "TextInputError",
    "clean",
    "keywords",
    "process",
    "process_input",
    "split",
    "statistics",
    "summarize",
]
