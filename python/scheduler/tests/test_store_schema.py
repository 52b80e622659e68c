"""Migrations: they lead to the schema that the tables describe, are safe to interrupt, and know their limits."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy.engine import Connection, Engine
from store_rows import NOW, changes, instance

from taskyard_core import records
from taskyard_scheduler.store.migrate import HEAD, record_release
from taskyard_scheduler.store.open import open_store
from taskyard_scheduler.store.port import SchemaTooNew
from taskyard_scheduler.store.tables import CLUSTER, METADATA, SPARE
from taskyard_scheduler.store.upgrade import SCRIPTS, upgrade


@pytest.fixture(params=["sqlite", "mysql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "mysql":
        return str(request.getfixturevalue("mariadb_database"))
    return f"sqlite:///{tmp_path / 'taskyard.db'}"


def engine_of(url: str) -> Engine:
    return sa.create_engine(url, poolclass=sa.NullPool)


async def migrated(url: str) -> Engine:
    """Opens a store: makes the schema of an empty database, and migrates any other."""
    store = open_store(url)
    await store.open()
    await store.close()
    return engine_of(url)


def _parts(text: str) -> list[str]:
    """Returns a definition without the order of its columns: one that a migration adds comes last."""
    return sorted(" ".join(part.split()).rstrip(")") for part in text.split(","))


def definitions(connection: Connection) -> dict[str, Any]:
    """Returns what the database itself says of each table and index."""
    if connection.dialect.name == "sqlite":
        rows = connection.exec_driver_sql("SELECT name, sql FROM sqlite_master")
        return {name: _parts(str(text)) for name, text in rows if not name.startswith("sqlite_")}
    found = {}
    for name in (*METADATA.tables, "alembic_version"):
        [(_, text)] = connection.exec_driver_sql(f"SHOW CREATE TABLE {name}")
        found[name] = sorted(line.strip(" ,") for line in text.splitlines())
    return found


def by_migrations(url: str) -> Engine:
    """Makes the schema by every migration, one after the other."""
    engine = engine_of(url)
    with engine.begin() as connection:
        upgrade(connection)
        record_release(connection)
    return engine


def content(connection: Connection) -> dict[str, list[Any]]:
    return {
        name: [tuple(row) for row in connection.execute(sa.select(sa.text("*")).select_from(sa.table(name)))]
        for name in (*METADATA.tables, "alembic_version")
    }


def test_migrations_lead_to_the_tables(url: str) -> None:
    with by_migrations(url).connect() as connection:
        for_this = METADATA.tables["instances"].indexes
        mysql_lacks = {
            index for index in for_this if connection.dialect.name != "sqlite" and index.name == "instances_live"
        }
        context = MigrationContext.configure(
            connection,
            opts={
                "compare_type": True,
                "compare_server_default": True,
                "include_object": lambda thing, *_: thing not in mysql_lacks,
            },
        )
        assert compare_metadata(context, METADATA) == []


async def test_an_empty_database_gets_what_the_migrations_lead_to(url: str) -> None:
    with by_migrations(url).connect() as connection:
        schema, rows = definitions(connection), content(connection)
        for table in (*METADATA.tables, "alembic_version"):
            connection.exec_driver_sql(f"DROP TABLE {table}")
        connection.commit()
    with (await migrated(url)).connect() as connection:
        assert definitions(connection) == schema
        assert content(connection) == rows


def test_the_newest_revision_is_that_of_the_migrations() -> None:
    assert ScriptDirectory(str(SCRIPTS)).get_heads() == [HEAD]


async def test_a_start_that_was_killed_before_the_clusters_row_is_taken_up(url: str) -> None:
    engine = await migrated(url)
    with engine.begin() as connection:
        connection.execute(sa.delete(CLUSTER))
    await migrated(url)
    with engine.connect() as connection:
        assert connection.scalar(sa.select(CLUSTER.c.term)) == 0


async def test_an_older_revision_is_migrated(url: str) -> None:
    engine = await migrated(url)
    with engine.begin() as connection:  # revision "nothing yet", with its tables there: every migration is due
        connection.exec_driver_sql("DELETE FROM alembic_version")
        connection.exec_driver_sql("DROP TABLE workflows")
    await migrated(url)
    with engine.connect() as connection:
        assert sa.inspect(connection).has_table("workflows")
        assert connection.scalar(sa.text("SELECT version_num FROM alembic_version")) == HEAD


async def test_migrating_twice_changes_nothing(url: str) -> None:
    engine = await migrated(url)
    with engine.connect() as connection:
        before = definitions(connection)
    store = open_store(url)
    await store.open()
    assert (await store.begin_term("a", NOW)).term == 1
    await store.close()
    await migrated(url)
    with engine.connect() as connection:
        assert definitions(connection) == before
        assert connection.scalar(sa.select(sa.func.count()).select_from(CLUSTER)) == 1


async def test_a_newer_database_is_refused_in_words(url: str) -> None:
    engine = await migrated(url)
    with engine.begin() as connection:
        connection.execute(sa.text("UPDATE alembic_version SET version_num = '9041'"))
        connection.execute(sa.update(CLUSTER).values(schema_version="7.3.1"))
    store = open_store(url)
    with pytest.raises(SchemaTooNew, match=r"made by Taskyard 7\.3\.1 \(schema 9041\).*upgrade this scheduler"):
        await store.open()
    await store.close()
    with engine.begin() as connection:
        connection.execute(sa.text("DROP TABLE cluster"))
    with pytest.raises(SchemaTooNew, match=r"made by a newer Taskyard \(schema 9041\)"):
        await store.open()


async def test_an_interrupted_migration_is_taken_up(url: str) -> None:
    engine = await migrated(url)
    with engine.begin() as connection:  # as after a kill half-way, where each statement commits by itself
        for table in ("cluster", "workflows", "alembic_version"):
            connection.exec_driver_sql(f"DROP TABLE {table}")
        on = " ON runs" if connection.dialect.name == "mysql" else ""
        connection.exec_driver_sql(f"DROP INDEX runs_request{on}")
    await migrated(url)
    with engine.connect() as connection:
        assert "runs_request" in {index["name"] for index in sa.inspect(connection).get_indexes("runs")}
        assert connection.scalar(sa.select(CLUSTER.c.term)) == 0


async def test_schedulers_that_start_together_migrate_once(mariadb_database: str) -> None:
    stores = [open_store(mariadb_database) for _ in range(4)]
    await asyncio.gather(*[store.open() for store in stores])
    await stores[0].begin_term("a", NOW)
    await stores[0].commit(1, changes(1, instance_inserts=[instance()]))
    for store in stores:
        assert len(await store.list_instances("default", [], None, 9, newest_first=False)) == 1
        await store.close()


def test_every_table_has_the_columns_of_its_records() -> None:
    expected = {
        "instances": (*records.INSTANCE_COLUMNS, SPARE),
        "attempts": records.ATTEMPT_COLUMNS,
        "runs": records.RUN_COLUMNS,
        "checkpoints": records.CHECKPOINT_COLUMNS,
        "workers": records.WORKER_COLUMNS,
        "requests": records.REQUEST_COLUMNS,
        "task_definitions": records.TASK_DEFINITION_COLUMNS,
        "variables": records.VARIABLE_COLUMNS,
        "pauses": records.PAUSE_COLUMNS,
        "artifacts": records.ARTIFACT_COLUMNS,
        "artifact_references": records.REFERENCE_COLUMNS,
        "workflows": records.WORKFLOW_COLUMNS,
        "workflow_heads": records.WORKFLOW_HEAD_COLUMNS,
    }
    tables = {name: tuple(table.c.keys()) for name, table in METADATA.tables.items() if table is not CLUSTER}
    assert tables == expected


def test_keys_lead_with_the_tenant() -> None:
    for table in METADATA.tables.values():
        if table is not CLUSTER:
            assert "tenant" in table.c
    led = {name: next(iter(table.primary_key.columns)).name for name, table in METADATA.tables.items()}
    # A worker's id is one for the whole cluster: the newer of two takes over, whatever its tenant.
    assert {name for name, first in led.items() if first != "tenant"} == {"cluster", "workers"}
