"""Plain queries: what counts as one, and that both engines give the same answer to each."""

import pytest

from dragoman.pipeline.embedded.queries import DuckQueries, as_spark_shows
from dragoman.pipeline.plain_sql import is_plain
from dragoman.pipeline.queries import SparkQueries
from dragoman.pipeline.store import TableStore
from dragoman.pipeline.tables import TABLES

PLAIN = [
    "select service, count(*) from jobs group by 1 order by 1",
    "SELECT service, count(*) AS n, sum(run_us), avg(run_us) as mean, max(ended_at) FROM jobs"
    " WHERE state = 'succeeded' GROUP BY service HAVING count(*) > 1 ORDER BY n DESC, service;",
    "select count(distinct worker) from assignments where run_us > 1000 + 1.5",
    "select job, deadline_at, ended_at from jobs order by ended_at desc, job limit 20",
    "select j.job, a.worker from jobs as j left join assignments as a on a.job = j.job"
    " where j.attempts between 2 and 9 order by 1, 2",
    "select coalesce(min(left_at), max(joined_at)) as t from sessions where services not in ('x')",
    "select sum(case when lower(fault) like '%lost%' then 1 else 0 end) as n from assignments",
    "select n from (select day, -count(*) as n from jobs where day is not null group by day) as d",
    "select service from jobs union select service from slo order by service",
    "select count(*) as n from jobs where submitted_at > '2026-01-05 00:00:10'",
    *(f"select * from {name}" for name in TABLES),
]
OTHERS = [
    "selec 1",
    "select seqs[0] from audit",
    'select count(*) from jobs where service = "task"',
    "select cast(run_us / 1000 as int) from jobs",
    "select concat(service, task) from jobs",
    "select run_us / attempts from jobs",
    "select dayofweek(day) from jobs",
    "select count(*) from jobs -- all",
    r"select count(*) from jobs where task like '%\_%'",
    "select j.job from jobs j",
    "select row_number() over (order by job) from jobs",
    "describe jobs",
    "with a as (select 1) select * from a",
    "select count (*) from jobs where service in (select service(1) from slo)",
]


@pytest.mark.parametrize("sql", PLAIN)
def test_a_query_of_known_words_is_plain(sql: str) -> None:
    assert is_plain(sql)


@pytest.mark.parametrize("sql", OTHERS)
def test_what_may_mean_something_else_is_not_plain(sql: str) -> None:
    assert not is_plain(sql)


@pytest.mark.spark
@pytest.mark.timeout(400)
def test_both_engines_give_the_same_answers(tables: TableStore) -> None:
    by_spark = SparkQueries(tables)
    with DuckQueries(tables.root) as by_duckdb:
        for sql in PLAIN:
            wanted, found = by_spark.rows(sql.rstrip(";")), as_spark_shows(by_duckdb.rows(sql))
            if "order by" not in sql.lower():
                wanted, found = sorted(wanted, key=repr), sorted(found, key=repr)
            assert found == wanted, sql
