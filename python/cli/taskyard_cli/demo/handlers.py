"""The demo's own task types, loaded by its workers: split, passages of a shard, join, report.

Not the demo's own side: what starts processes, kills one and checks the history is beside this file. Vectors, searches
and answers are made by built-in task types.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

from taskyard_cli.demo.reference import reference, sections
from taskyard_cli.demo.report import Answer, Index, report_text
from taskyard_worker import Context, InvalidInput, NonRetryable, task
from taskyard_worker.text import clean
from taskyard_worker.text import split as cut

PASSAGE_CHARACTERS = 1000


class WantedFailure(Exception):
    """The demo wants this attempt to fail."""


@task("reference_split")
def split(ctx: Context, shards: int) -> dict[str, Any]:
    """Deal the topics out: the longest first, each to the shard that has least."""
    texts = reference()
    dealt: list[list[str]] = [[] for _ in range(shards)]
    lengths = [0] * shards
    for name in sorted(texts, key=lambda name: (-len(texts[name]), name)):
        least = lengths.index(min(lengths))
        dealt[least].append(name)
        lengths[least] += len(texts[name])
    ctx.log.info("%d topics, %d characters, %d shards", len(texts), sum(lengths), shards)
    return {"shards": [sorted(names) for names in dealt]}


@task("reference_passages")
def passages(ctx: Context, topics: list[str], fail_first: bool = False) -> list[dict[str, str]]:
    """Cut each topic of a shard into passages."""
    if fail_first and ctx.attempt == 1:
        ctx.log.warning("failing, as the workflow says")
        raise WantedFailure("the workflow says that this shard fails at its first attempt")
    texts = reference()
    found: list[dict[str, str]] = []
    for done, name in enumerate(topics):
        ctx.raise_if_cancelled()
        if name not in texts:
            raise InvalidInput(f"there is no topic {name!r} in this Python's language reference")
        found += of_topic(name, texts[name])
        ctx.progress_sync(100 * (done + 1) / len(topics), name)
    return found


def of_topic(name: str, text: str) -> Iterator[dict[str, str]]:
    """Yield a topic's passages: each with an id of its own, and with the title of its section as its first line.

    The colon makes title and first sentence one sentence to whoever summarizes it.
    """
    cuts = (
        (title, each["text"])
        for title, body in sections(name, text)
        for each in cut(clean(body), max_chars=PASSAGE_CHARACTERS)
    )
    for number, (title, passage) in enumerate(cuts, start=1):
        yield {"id": f"{name}/{number}", "text": f"{title}:\n{passage}"}


@task("reference_join")
def join(ctx: Context, indexes: list[str]) -> dict[str, Any]:
    """Make one index of several, of one model; a text that several topics share is in it once."""
    header, seen = b"", set[bytes]()
    lines: list[bytes] = []
    for uri in indexes:
        own, *entries = ctx.artifacts.get_sync(uri).strip().split(b"\n")
        if own != (header := header or own):
            raise NonRetryable(f"one index is of {own.decode()}, another of {header.decode()}: vectors are not mixed")
        lines += once(entries, seen)
    said = json.loads(header)
    uri = ctx.artifacts.put_sync(b"\n".join([header, *lines, b""]), f"{said['model']}.jsonl", "application/jsonl")
    ctx.log.info("%d passages in %s", len(lines), uri)
    return {"index": uri, "passages": len(lines), **said}


def once(entries: Iterable[bytes], seen: set[bytes]) -> Iterator[bytes]:
    """Yield the entries whose text was not seen before."""
    for entry in entries:
        key = sha256(json.loads(entry)["text"].encode()).digest()
        if key not in seen:
            seen.add(key)
            yield entry


@task("reference_report")
def report(ctx: Context, report: str, index: dict[str, Any], answers: list[dict[str, Any]]) -> dict[str, Any]:
    """Write the questions with answers and sources to a file."""
    if strange := {each["found"]["model"] for each in answers} - {index["model"]}:
        raise NonRetryable(f"the index is of {index['model']}, and questions were embedded by {', '.join(strange)}")
    told = [Answer.read(each) for each in answers]
    path = Path(report)
    part = path.with_name(f"{path.name}.part")
    part.write_text(report_text(Index(index["passages"], index["model"]), told), encoding="utf-8")
    part.replace(path)  # whoever looks sees all of it or nothing, also when this attempt is the second
    ctx.log.info("%d answers written to %s", len(told), path)
    return {"questions": len(told), "found": sum(each.found for each in told), "model": index["model"]}
