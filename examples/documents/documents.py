"""Reads a folder of texts and cuts them into passages, as the built-in task type `index` takes them."""

from __future__ import annotations

from pathlib import Path

from taskyard_worker import Context, InvalidInput, task
from taskyard_worker.text import clean, split

PASSAGE_CHARACTERS = 400


@task("read_folder")
def read_folder(folder: str) -> list[dict[str, str]]:
    """Returns name and text of each *.txt file, in the order of their names."""
    files = sorted(Path(folder).glob("*.txt"))
    if not files:
        raise InvalidInput(f"there is no *.txt file in {folder}")
    return [{"name": file.name, "text": file.read_text(encoding="utf-8")} for file in files]


@task("split_documents")
def split_documents(ctx: Context, documents: list[dict[str, str]]) -> list[dict[str, str]]:
    """Returns the passages of all documents.

    Each begins with the title of its document, the first line: a passage alone may not say what it is about.
    """
    passages = []
    for document in documents:
        title, _, body = clean(document["text"]).partition("\n")
        for number, piece in enumerate(split(body, max_chars=PASSAGE_CHARACTERS), start=1):
            passages.append({"id": f"{document['name']}, {number}", "text": f"{title}:\n{piece['text']}"})
    ctx.log.info("%d documents, %d passages", len(documents), len(passages))
    return passages
