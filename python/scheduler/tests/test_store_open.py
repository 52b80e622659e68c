"""Which URL opens which store, and what is said about those that open none."""

from __future__ import annotations

import pytest

from taskyard_scheduler.store import open_store
from taskyard_scheduler.store.port import StoreError


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("sqlite:///relative.db", "sqlite"),
        ("sqlite:////absolute/path.db", "sqlite"),
        ("mysql+pymysql://user:password@host:3306/taskyard", "mysql"),
        ("mysql://host/taskyard", "mysql"),
        ("mariadb+pymysql://host/taskyard", "mysql"),
    ],
)
def test_a_url_chooses_its_store(url: str, name: str) -> None:
    assert open_store(url).name == name


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("postgresql://host/db", "there is no store for 'postgresql' databases; write sqlite:///"),
        ("not a url", "cannot be read; write sqlite:///"),
        ("", "cannot be read; write sqlite:///"),
        ("sqlite://", "name a file: sqlite:///"),
        ("sqlite:///:memory:", "name a file: sqlite:///"),
        ("mysql+pymysql://host", "name the database"),
    ],
)
def test_other_urls_are_refused_in_words(url: str, words: str) -> None:
    with pytest.raises(StoreError, match=words):
        open_store(url)
