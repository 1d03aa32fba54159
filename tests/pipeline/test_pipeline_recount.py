"""The tables recounted from the raw segments by DuckDB, with SQL written from `docs/pipeline.md`.

Nothing of the pipeline's code is used for the recount. The planted faults are part of it: of the
records of one number the smallest counts, and records after the first end of a job do not.
"""

from pathlib import Path
from typing import Any

import duckdb
import pytest
from pyspark.sql import functions as F

from dragoman.pipeline.store import TableStore
from dragoman.pipeline.tables import read_table

pytestmark = [pytest.mark.spark, pytest.mark.timeout(400)]

BASE = """
create view raw as select distinct on (seq) * from read_parquet('{path}') order by seq, "at";
create view submitted as select * from raw where kind = 'submitted';
create view ends as
    select job, submitted_at, min_by(r, seq) as e from raw r where kind = 'ended' group by 1, 2;
create view lived as
    select r.* from raw r left join ends x using (job, submitted_at)
    where r.job <> '' and (x.e is null or r.seq <= x.e.seq);
create view starts as
    select job, submitted_at, min(seq) as started_seq, min("at") as started_at,
        count(*) as dispatches, max_by(worker, seq) as worker, max_by(dialect, seq) as dialect_out,
        max_by(service, seq) as served_by
    from lived where kind = 'dispatched' group by 1, 2;
create view sizes as
    select job, submitted_at, sum(nbytes) as result_bytes
    from lived where kind in ('ended', 'gathered') group by 1, 2;
create view jobs as
    select s.job, s.client, s.principal, s.service, coalesce(d.served_by, '') as served_by,
        s.dialect as dialect_in, coalesce(d.dialect_out, '') as dialect_out,
        coalesce(x.e.state, '') as state, coalesce(x.e.fault, '') as fault,
        coalesce(d.worker, '') as worker, coalesce(d.dispatches, 0) as dispatches,
        s.seq as submitted_seq, d.started_seq, x.e.seq as ended_seq,
        epoch_us(coalesce(d.started_at, x.e."at")) - epoch_us(s."at") as queue_us,
        epoch_us(x.e."at") - epoch_us(coalesce(d.started_at, x.e."at")) as run_us,
        epoch_us(x.e."at") - epoch_us(s."at") as total_us,
        s.nbytes as request_bytes, coalesce(z.result_bytes, 0) as result_bytes,
        x.e."at" as ended_at, cast(x.e."at" as date) as day
    from submitted s left join starts d using (job, submitted_at)
    left join ends x using (job, submitted_at) left join sizes z using (job, submitted_at);
"""
QUERIES = {
    "jobs": """
        select job, client, principal, service, served_by, dialect_in, dialect_out, fault, worker,
            dispatches, submitted_seq, started_seq, ended_seq, queue_us, run_us, total_us,
            request_bytes, result_bytes from jobs""",
    "accounting": """
        select client, principal, service, count(*) as jobs,
            count(*) filter (state = 'succeeded') as succeeded, sum(dispatches) as dispatches,
            sum(run_us) as run_us, sum(request_bytes) as request_bytes,
            sum(result_bytes) as result_bytes,
            count(*) * 100 + sum(run_us) * 1000 // 1000000
                + (sum(request_bytes) + sum(result_bytes)) * 50 // 1048576 as bill
        from jobs where day is not null group by day, client, principal, service""",
    "bridges": """
        select dialect_in, dialect_out, count(*) as jobs,
            count(*) filter (state = 'succeeded') as succeeded,
            count(*) filter (fault = 'unmappable') as unmappable,
            sum(queue_us) as queue_us, sum(run_us) as run_us,
            cast(round(quantile_cont(total_us, 0.5)) as bigint) as total_p50_us,
            cast(round(quantile_cont(total_us, 0.99)) as bigint) as total_p99_us
        from jobs where day is not null group by day, dialect_in, dialect_out""",
    "slo": """
        select service,
            count(*) filter (state = 'succeeded' and total_us <= 60000000) as good,
            count(*) filter (state <> 'succeeded' or total_us > 60000000) as bad
        from jobs where day is not null and state <> 'cancelled' group by day, service""",
    "service_minutes": """
        with moments as (
            select service, dialect, date_trunc('minute', "at") as minute, 1 as submitted,
                0 as refused, null as state, null as run_us, null as queue_us from submitted
            union all
            select service, dialect, date_trunc('minute', "at"), 0, 1, null, null, null
            from raw where kind = 'refused'
            union all
            select service, dialect_in, date_trunc('minute', ended_at), 0, 0, state, run_us,
                queue_us from jobs where day is not null)
        select service, dialect, strftime(any_value(minute), '%H:%M') as minute,
            sum(submitted) as submitted, sum(refused) as refused, count(state) as ended,
            count(*) filter (state = 'succeeded') as succeeded,
            cast(round(quantile_cont(queue_us, 0.99)) as bigint) as queue_p99_us,
            cast(round(quantile_cont(run_us, 0.5)) as bigint) as run_p50_us
        from moments m group by service, dialect, m.minute""",
}


@pytest.fixture(scope="module")
def engine(planted: Path) -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    connection.execute("set timezone = 'UTC'")
    connection.execute(BASE.format(path=planted / "segments" / "*.parquet"))
    return connection


def rows(columns: list[str], found: list[tuple[Any, ...]]) -> list[str]:
    plain = ([None if v is None else str(v) for v in row] for row in found)
    return sorted(repr(dict(zip(columns, row, strict=True))) for row in plain)


@pytest.mark.parametrize("name", [*QUERIES])
def test_a_table_has_the_rows_of_the_recount(
    engine: duckdb.DuckDBPyConnection, tables: TableStore, name: str
) -> None:
    counted = engine.execute(QUERIES[name])
    columns = [column[0] for column in counted.description or ()]
    wanted = rows(columns, counted.fetchall())
    found = read_table(tables, name)
    if name == "service_minutes":
        # A minute with only a dispatch or an end of an assignment has a row, too.
        found = found.where("submitted + refused + ended > 0")
        found = found.withColumn("minute", F.date_format("minute", "HH:mm"))
    assert rows(columns, [tuple(row) for row in found.select(*columns).collect()]) == wanted
    assert len(wanted) > 3
