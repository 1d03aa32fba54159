"""Only queries over known tables get through, whatever they are wrapped in."""

import pytest
from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import SparkSession

from dragoman.spark.guard import NotAllowed, check_plan, harden, parse, restrict_functions

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]


def check_query(session: SparkSession, text: str, names: list[str] | None = None) -> None:
    check_plan(parse(session, text), names)


@pytest.fixture(scope="module")
def session(spark: SparkSession) -> SparkSession:
    session = spark.newSession()
    harden(session)
    restrict_functions(session)
    session.range(4).selectExpr("id", "id % 2 as b", "array(id) as c").createOrReplaceTempView("t")
    session.range(9).createOrReplaceTempView("u")
    return session


@pytest.mark.parametrize(
    "query",
    [
        "select 1",
        "select b, count(*) from t where id in (select id from u) group by b having count(*) > 0",
        "with x as (select * from t), y as (select * from x) select * from y join u using (id)",
        "with recursive r as (select 1 as n union all select n + 1 from r where n < 5) table r",
        "select * from t, lateral (select max(u.id) from u where u.id = t.id)",
        "select (select max(id) from u) from t where exists (select 1 from u where u.id = t.id)",
        "select sum(id) over w from t window w as (partition by b)",
        "select * from t lateral view explode(c) as d",
        "select * from t pivot (sum(id) for b in (0, 1))",
        "select id from t unpivot (v for n in (id, b)) union all select id from u",
        "from t |> where id > 1 |> select b",
        "select distinct id from t intersect select id from u order by id limit 2 offset 1",
        "select /*+ broadcast(t) */ * from T tablesample (50 percent) where id = :x limit :n",
        "select * from range(10)",
        "values (1), (2)",
        "table t",
    ],
)
def test_a_query_is_let_through(session: SparkSession, query: str) -> None:
    check_query(session, query, ["t", "u"])


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("insert into t select 1", "InsertIntoStatement"),
        ("with x as (select 1) insert into t select * from x", "InsertIntoStatement"),
        ("from t insert into a select id insert into b select id", "InsertIntoStatement"),
        ("create table x (a int)", "CreateTable"),
        ("create temporary view x as select 1", "Create"),
        ("drop view t", "DropView"),
        ("cache table t", "CacheTable"),
        ("set spark.sql.runSQLOnFiles = true", "SetCommand"),
        ("reset", "ResetCommand"),
        ("add jar '/tmp/x.jar'", "AddJar"),
        ("explain select 1", "ExplainCommand"),
        ("show tables", "ShowTables"),
        ("call p()", "Call"),
        ("execute immediate 'drop view t'", "ExecuteImmediate"),
        ("begin select 1; end", "CompoundBody"),
        ("select transform(id) using 'cat' from t", "ScriptTransformation"),
        ("select * from (select transform(id) using 'cat' from t)", "ScriptTransformation"),
        ("select 1 where exists (select transform(id) using 'cat' from t)", "ScriptTransformation"),
        (
            "with x as (select transform(id) using 'cat' from t) select * from x",
            "ScriptTransformation",
        ),
        ("select * from identifier(:name)", "PlanWithUnresolvedIdentifier"),
        ("select * from python_worker_logs()", "python_worker_logs"),
    ],
)
def test_anything_else_is_refused_by_name(
    session: SparkSession, statement: str, words: str
) -> None:
    with pytest.raises(NotAllowed, match=words):
        check_query(session, statement, ["t", "u"])


@pytest.mark.parametrize(
    ("query", "where"),
    [
        ("select * from parquet.`/etc/passwd`", "line 1, column 15: .*parquet./etc/passwd"),
        ("select 1\nfrom csv.`file:/etc/passwd`", "line 2, column 6: "),
        ("select (select count(*) from text.`/etc/passwd`)", "text./etc/passwd"),
        ("with x as (select * from json.`/tmp`) select * from x", "json./tmp"),
        ("select * from dragoman.`/tmp`", "dragoman./tmp"),
        ("select * from spark_catalog.default.t", "spark_catalog.default.t"),
        ("select * from missing", "known tables: t, u"),
    ],
)
def test_only_tables_that_were_named_can_be_read(
    session: SparkSession, query: str, where: str
) -> None:
    with pytest.raises(NotAllowed, match=where):
        check_query(session, query, ["u", "t"])


def test_without_names_any_table_may_be_named_and_still_only_queries_are_let_through(
    session: SparkSession,
) -> None:
    check_query(session, "select * from anything")
    with pytest.raises(NotAllowed):
        check_query(session, "drop table anything")


def test_what_is_no_sql_is_sparks_to_say(session: SparkSession) -> None:
    with pytest.raises(ParseException):
        check_query(session, "selec 1", ["t"])


@pytest.mark.parametrize(
    "query",
    [
        "select reflect('java.lang.System', 'getProperty', 'user.home')",
        "select java_method('java.lang.System', 'getProperty', 'user.home')",
        "select try_reflect('java.lang.System', 'getProperty', 'user.home')",
        "select * from text.`/etc/hostname`",
        "select from_xml('<a/>', 'a int', map('rowValidationXSDPath', 'http://127.0.0.1:9/x'))",
        "select schema_of_xml('<a/>')",
        "select xpath('<a/>', 'a')",
        """select from_json('{"a": 1}', 'a int')""",
        "select from_csv('1', 'a int')",
        "select from_protobuf(unhex('00'), 'm', '/etc/hostname')",
        "select from_avro(unhex('00'), '{}')",
        "select input_file_name() from t",
        "select current_user()",
        "select system.builtin.reflect('java.lang.System', 'getProperty', 'user.home')",
        "select identifier('reflect')('java.lang.System', 'getProperty', 'user.home')",
        "select * from t lateral view java_method('java.lang.System', 'exit', 1)",
        "select transform(c, x -> reflect('java.lang.System', 'getProperty', 'user.home')) from t",
        "select * from python_worker_logs()",
    ],
)
def test_a_hardened_session_reaches_no_file_and_no_method_by_itself(
    spark: SparkSession, session: SparkSession, query: str
) -> None:
    with pytest.raises(AnalysisException):
        session.sql(query).collect()
    assert spark.sql("select reflect('java.lang.Math', 'abs', -1)").collect()[0][0] == "1"


def test_a_hardened_session_tells_nothing_of_its_process(session: SparkSession) -> None:
    found = session.sql(
        "select '${env:PATH}', '${system:user.home}', '${spark.app.name}'"
    ).collect()
    assert [*found[0]] == ["${env:PATH}", "${system:user.home}", "${spark.app.name}"]
