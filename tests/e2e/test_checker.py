"""The checker itself: each thing that it promises to find is done to a good history, and found."""

from __future__ import annotations

import json
import random
from collections.abc import Callable

import pytest

from e2e.history import History, check
from e2e.load import Load
from e2e.site import Site

Damage = Callable[[Site, History], None]


def sql(statement: str) -> Damage:
    """Returns what a statement does to the database; $ONE is the id of some task."""

    def damage(site: Site, history: History) -> None:
        database = site.database()
        database.run(statement.replace("$ONE", ONE))
        database.close()

    return damage


def again(site: Site, history: History) -> None:
    """An attempt ran twice."""
    with site.records.open("a") as records:
        records.write(site.records.read_text().splitlines()[0] + "\n")


def ghost(site: Site, history: History) -> None:
    """Something ran that is nobody's attempt."""
    record = json.loads(site.records.read_text().splitlines()[0])
    with site.records.open("a") as records:
        records.write(json.dumps(record | {"attempt": 77}) + "\n")


def elsewhere(site: Site, history: History) -> None:
    """An attempt ran on another worker than it was given to."""
    site.records.write_text(site.records.read_text().replace('"worker-1"', '"worker-2"', 1))


def unrun(site: Site, history: History) -> None:
    """A success that never ran."""
    site.records.write_text("\n".join(site.records.read_text().splitlines()[2:]) + "\n")


def changed(site: Site, history: History) -> None:
    """A client saw another end."""
    id, (state, attempt, output) = next(iter(history.endings.items()))
    history.endings[id] = (state, attempt + 1, output)


ONE = "(SELECT id FROM instances WHERE task_type = 'double' LIMIT 1)"
DAMAGES: dict[str, Damage] = {
    "lost": sql("DELETE FROM instances WHERE id = $ONE"),
    "not ended": sql("UPDATE instances SET phase = 1, state = 6 WHERE id = $ONE"),
    "ended otherwise": sql("UPDATE instances SET state = 3 WHERE id = $ONE"),
    "another output": sql("UPDATE instances SET output_json = '1' WHERE id = $ONE"),
    "nobody asked": sql("UPDATE instances SET request_id = 'other' WHERE id = $ONE"),
    "attempt missing": sql("UPDATE instances SET attempt = attempt + 1 WHERE id = $ONE"),
    "token twice": sql(
        "UPDATE instances SET token = (SELECT token FROM instances WHERE task_type = 'pause' LIMIT 1)"
        " WHERE id = $ONE"
    ),
    "ran twice": again, "ghost": ghost, "elsewhere": elsewhere, "unrun": unrun, "changed": changed,
}  # fmt: skip


async def test_every_damage_is_found(site: Site, rng: random.Random) -> None:
    await site.start_scheduler()
    await site.start_worker()
    load = Load(site, rng, kinds=("double", "pause"))
    await load.during(load.reach(40, lambda: load.ended))
    await check(site, load.history)
    good_rows = _rows(site)
    good_records = site.records.read_text()
    for name, damage in DAMAGES.items():
        history = History(dict(load.history.submitted), dict(load.history.endings))
        damage(site, history)
        try:
            await check(site, history)
        except AssertionError as found:
            print(f"{name}: {str(found)[:100]}")
        else:
            pytest.fail(f"{name} was not found")
        site.records.write_text(good_records)
        _restore(site, good_rows)
        await check(site, load.history)


def _rows(site: Site) -> list[dict[str, object]]:
    database = site.database()
    try:
        return database.rows("SELECT * FROM instances")
    finally:
        database.close()


def _restore(site: Site, rows: list[dict[str, object]]) -> None:
    database = site.database()
    database.run("DELETE FROM instances")
    for row in rows:
        values = ", ".join(_literal(value) for value in row.values())
        database.run(f"INSERT INTO instances ({', '.join(row)}) VALUES ({values})")  # noqa: S608 - its own rows
    database.close()


def _literal(value: object) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, bytes):
        return f"x'{value.hex()}'"
    return str(value) if isinstance(value, int) else "'" + str(value).replace("'", "''") + "'"
