"""The demo's task types, loaded by its workers: split, one shard, join.

Not the demo's own side: what starts processes, kills one and checks the history is beside this file.
"""

from __future__ import annotations

import platform
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from taskyard_worker import Context, InvalidInput, task
from taskyard_worker.text import clean, keywords, statistics, summarize

KEYWORDS, SENTENCES = 6, 2
"""Of each topic."""

COMMON_KEYWORDS = 40
"""How many keywords the index begins with: those that most topics share."""


class WantedFailure(Exception):
    """The demo wants this attempt to fail."""


def reference() -> dict[str, str]:
    """Returns the language reference, by topic, that every CPython ships."""
    topics: dict[str, str] = import_module("pydoc_data.topics").topics
    return topics


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


@task("reference_shard")
def shard(ctx: Context, topics: list[str], fail_first: bool = False) -> list[dict[str, Any]]:
    """Look at each topic of a shard."""
    if fail_first and ctx.attempt == 1:
        ctx.log.warning("failing, as the workflow says")
        raise WantedFailure("the workflow says that this shard fails at its first attempt")
    texts = reference()
    entries = []
    for done, name in enumerate(topics):
        ctx.raise_if_cancelled()
        if name not in texts:
            raise InvalidInput(f"there is no topic {name!r} in this Python's language reference")
        entries.append(entry(name, texts[name]))
        ctx.progress_sync(100 * (done + 1) / len(topics), name)
    return entries


def entry(name: str, text: str) -> dict[str, Any]:
    """Return what the index has of one topic."""
    title, body = titled(text)
    cleaned = clean(body)
    return {
        "name": name,
        "title": title,
        "words": statistics(cleaned)["words"],
        "keywords": [each["keyword"] for each in keywords(cleaned, top_k=KEYWORDS)],
        "summary": summarize(cleaned, max_sentences=SENTENCES),
    }


def titled(text: str) -> tuple[str, str]:
    """Return a topic's title and the rest; the title is the first line when it is underlined."""
    first, _, rest = text.partition("\n")
    underline, _, body = rest.partition("\n")
    return (first.strip(), body) if underline and not underline.strip("*=-~^") else (first.strip(), text)


@task("reference_join")
def join(ctx: Context, report: str, shards: list[list[dict[str, Any]]]) -> dict[str, Any]:
    """Write the index of all shards to a file."""
    entries = sorted((each for part in shards for each in part), key=lambda each: each["name"])
    path = Path(report)
    part = path.with_name(f"{path.name}.part")
    part.write_text(index(entries), encoding="utf-8")
    part.replace(path)  # whoever looks sees all of it or nothing, also when this attempt is the second
    ctx.log.info("%d topics written to %s", len(entries), path)
    return {"topics": len(entries), "words": sum(each["words"] for each in entries)}


def index(entries: Sequence[Mapping[str, Any]]) -> str:
    """Return the index as Markdown."""
    words = sum(each["words"] for each in entries)
    parts = [
        "# The Python language reference: an index",
        f"{len(entries)} topics, {words:,} words, from `pydoc_data.topics` of Python {platform.python_version()}.",
        "## Keywords",
        "\n".join(common(entries)),
        "## Topics",
        *(section(each) for each in entries),
    ]
    return "\n\n".join(parts) + "\n"


def common(entries: Sequence[Mapping[str, Any]]) -> Iterable[str]:
    """Yield a line for each keyword that most topics share, by the alphabet, with its topics."""
    topics: defaultdict[str, list[str]] = defaultdict(list)
    for each in entries:
        for keyword in each["keywords"]:
            topics[keyword].append(each["name"])
    shared = Counter({keyword: len(names) for keyword, names in topics.items()})
    for keyword, _ in sorted(shared.most_common(COMMON_KEYWORDS)):
        yield f"- **{keyword}**: {', '.join(f'[{name}](#{name})' for name in topics[keyword])}"


def section(each: Mapping[str, Any]) -> str:
    """Return the section of one topic."""
    return "\n\n".join(
        [
            f"### {each['name']}",
            f"*{each['title']}*, {each['words']:,} words",
            escaped(each["summary"]),
            f"Keywords: {', '.join(each['keywords'])}",
        ]
    )


def escaped(text: str) -> str:
    """Return plain text as Markdown that shows it as it is."""
    return "".join(f"\\{character}" if character in "\\`*_[]<>#|" else character for character in text)
