"""The three steps of a small ETL. Each can be run again at any time: it writes the same files, whole or not at all."""

from __future__ import annotations

import csv
import os
import random
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import duckdb

from taskyard_worker import NonRetryable, task

ORDERS, CUSTOMERS = 20_000, 300
COUNTRIES = ("AT", "BR", "CN", "DE", "JP", "KE", "US")


@task("etl_extract")
def extract(day: str, folder: str) -> dict[str, str]:
    """Writes the day's orders and the customers as CSV. Here they are made up, the same ones for the same day."""
    made_up = random.Random(day)  # noqa: S311 - nobody has to guess it
    target = Path(folder) / day
    target.mkdir(parents=True, exist_ok=True)
    customers = [(number, made_up.choice(COUNTRIES)) for number in range(1, CUSTOMERS + 1)]
    orders = [(number, made_up.randint(1, CUSTOMERS), made_up.randint(100, 99_999)) for number in range(1, ORDERS + 1)]
    _write_csv(target / "customers.csv", ("customer", "country"), customers)
    _write_csv(target / "orders.csv", ("order_id", "customer", "cents"), orders)
    return {"orders": str(target / "orders.csv"), "customers": str(target / "customers.csv")}


@task("etl_aggregate")
def aggregate(orders: str, customers: str, target: str) -> dict[str, object]:
    """Joins orders with customers and writes the revenue of each country as Parquet."""
    with duckdb.connect() as database:
        database.execute("CREATE TABLE orders AS FROM read_csv(?)", [orders])
        database.execute("CREATE TABLE customers AS FROM read_csv(?)", [customers])
        strangers = database.execute(
            "SELECT count(*) FROM orders ANTI JOIN customers USING (customer)"
        ).fetchall()[0][0]  # fmt: skip
        if strangers:
            # Another attempt would find the same: somebody has to look at the files.
            raise NonRetryable(f"{strangers} orders are of customers that {customers} does not have")
        with _whole(Path(target)) as unfinished:
            database.sql(
                """
                SELECT country, count(*) AS orders, sum(cents)::BIGINT AS cents
                FROM orders JOIN customers USING (customer) GROUP BY country ORDER BY country
                """
            ).write_parquet(str(unfinished))
    return {"target": target}


@task("etl_report")
def report(day: str, source: str, target: str) -> dict[str, object]:
    """Writes what the Parquet file says for people."""
    with duckdb.connect() as database:
        rows = database.execute("SELECT country, orders, cents FROM read_parquet(?) ORDER BY cents DESC", [source])
        found = rows.fetchall()
    lines = [f"# Revenue of {day}", "", "| country | orders | revenue |", "|---|---|---|"]
    lines += [f"| {country} | {orders:,} | {cents / 100:,.2f} |" for country, orders, cents in found]
    with _whole(Path(target)) as unfinished:
        unfinished.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return {"target": target, "countries": len(found), "revenue_cents": sum(cents for _, _, cents in found)}


@contextmanager
def _whole(path: Path) -> Iterator[Path]:
    """Gives a file to write to that takes the place of `path` at the end: a killed attempt leaves nothing half done."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
    os.close(handle)
    unfinished = Path(name)
    try:
        yield unfinished
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)


def _write_csv(path: Path, head: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    with _whole(path) as unfinished, unfinished.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(head)
        writer.writerows(rows)
