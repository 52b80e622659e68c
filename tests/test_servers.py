"""The private servers that other tests rely on do what they promise."""

from __future__ import annotations

import itertools
import socket
from collections.abc import Iterator
from pathlib import Path

import pymysql
import pytest
import servers
from servers import LOOPBACK, PORTS, MariaDB, Redis, ServerProcess, free_port
from sqlalchemy.engine import make_url


def open_database(url: str) -> pymysql.Connection:
    parsed = make_url(url)
    assert parsed.host
    assert parsed.port
    assert parsed.database
    return pymysql.connect(host=parsed.host, port=parsed.port, user=parsed.username, database=parsed.database)


@pytest.fixture
def own_mariadb(mariadb: MariaDB, tmp_path: Path) -> Iterator[MariaDB]:
    server = MariaDB(tmp_path / "own")
    server.start()
    yield server
    server.stop()


def test_mariadb_flushes_every_commit(mariadb_url: str) -> None:
    with open_database(mariadb_url) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT @@innodb_flush_log_at_trx_commit, @@collation_database")
        assert cursor.fetchone() == (1, "utf8mb4_bin")


def test_each_mariadb_database_is_new_and_empty(mariadb: MariaDB, mariadb_database: str) -> None:
    assert mariadb_database != mariadb.create_database()
    with open_database(mariadb_database) as connection, connection.cursor() as cursor:
        assert cursor.execute("SHOW TABLES") == 0


def test_committed_rows_survive_a_killed_mariadb(own_mariadb: MariaDB) -> None:
    url = own_mariadb.create_database()
    with open_database(url) as connection, connection.cursor() as cursor:
        cursor.execute("CREATE TABLE kept (number INT PRIMARY KEY)")
        cursor.execute("INSERT INTO kept VALUES (7)")
        connection.commit()
    own_mariadb.kill()
    with pytest.raises(pymysql.err.OperationalError):
        open_database(url)
    own_mariadb.start()
    with open_database(url) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT number FROM kept")
        assert cursor.fetchall() == ((7,),)


def test_redis_answers(redis_server: Redis) -> None:
    with socket.create_connection((LOOPBACK, redis_server.port), timeout=5) as connection:
        connection.sendall(b"PING\r\n")
        assert connection.recv(64) == b"+PONG\r\n"


def test_a_server_that_does_not_start_says_why(tmp_path: Path) -> None:
    server = ServerProcess(["sh", "-c", "echo the disk is on fire; exit 3"], tmp_path, port=1)
    with pytest.raises(RuntimeError, match="the disk is on fire"):
        server.start()


def test_free_ports_differ_and_are_not_taken() -> None:
    ports = [free_port() for _ in range(50)]
    assert len(set(ports)) == 50
    assert set(ports) <= set(PORTS)
    with socket.socket() as held:
        held.bind((LOOPBACK, ports[0]))
        assert ports[0] not in {free_port() for _ in range(len(PORTS) // servers.SHARES)}  # once round


def test_processes_that_share_a_run_are_given_different_ports(monkeypatch: pytest.MonkeyPatch) -> None:
    given = []
    for name in ("gw0", "gw1"):
        monkeypatch.setenv("PYTEST_XDIST_WORKER", name)
        given.append(set(itertools.islice(servers.own_ports(), len(PORTS) // servers.SHARES)))
    assert not given[0] & given[1]
    assert all(len(ports) == len(PORTS) // servers.SHARES for ports in given)
