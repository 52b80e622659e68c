"""The operation `clean`: takes out what nobody sees, evens out white space, changes no visible character."""

from __future__ import annotations

import re

from taskyard_worker.text.options import Flag
from taskyard_worker.text.source import source
from taskyard_worker.text.tables import tables

KEEP_LINES = Flag("keep_lines")
# A terminal's control sequence, such as a colour in a log line; possessive, to read each run once.
_CONTROL_SEQUENCE = re.compile(r"\x1b\[[0-?]*+[ -/]*+[@-~]")
_SPACES = re.compile(" {2,}")
_LINE_EDGE = re.compile(" ?\n ?")
_BLANK_LINES = re.compile("\n{3,}")


def clean(text: str, *, keep_lines: object = True) -> str:
    """Returns the text with even white space and without control and invisible characters.

    Args:
        text: any string.
        keep_lines: whether lines stay lines, at most one blank line between two; else all is one line.

    Raises:
        TextInputError: an argument is not what it must be.
    """
    keep = KEEP_LINES.read(keep_lines)
    seen = _CONTROL_SEQUENCE.sub("", source(text)).translate(tables().cleaned)
    lines = seen.replace("\r\n", "\n").replace("\r", "\n")
    if not keep:
        return _SPACES.sub(" ", lines.replace("\n", " ")).strip(" ")
    trimmed = _LINE_EDGE.sub("\n", _SPACES.sub(" ", lines))
    return _BLANK_LINES.sub("\n\n", trimmed).strip("\n ")
