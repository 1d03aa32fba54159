-- Minutes of services and their anomalies; see `pipeline/service_minutes.py`, `anomalies.py`.
create temp table changed_minutes as
with recent as (
    select * from recent_jobs where ended_at is null or ended_at >= getvariable('since')),
work_now as (
    select * from recent_assignments where ended_at is null or ended_at >= getvariable('since')),
changes as (
    select service, dialect_in as dialect, no_earlier(submitted_at) as minute, 1 as backlog,
        0 as running, 1 as submitted from recent
    union all
    select service, dialect_in, no_earlier(coalesce(started_at, ended_at)), -1, 0, 0 from recent
    union all
    select service, dialect_in, no_earlier(dispatched_at), 0, 1, 0 from work_now
    union all
    select service, dialect_in, no_earlier(ended_at), 0, -1, 0 from work_now),
moments as (
    select service, dialect_in as dialect, no_earlier(ended_at) as minute, state, fault, queue_us,
        run_us
    from recent where ended_at is not null
    union all by name
    select * from changes where minute is not null
    union all by name
    select service, dialect, no_earlier("at") as minute, 1 as refused, fault from refusals),
counted as (
    select service, dialect, minute, coalesce(sum(submitted), 0) as submitted,
        coalesce(sum(refused), 0) as refused, coalesce(sum(backlog), 0) as backlog_change,
        coalesce(sum(running), 0) as running_change, count(state) as ended,
        count(*) filter (state = 'succeeded') as succeeded,
        count(*) filter (state = 'failed') as failed,
        count(*) filter (state = 'expired') as expired,
        count(*) filter (state = 'cancelled') as cancelled,
        count(*) filter (state = 'dead') as dead,
        coalesce(list(fault) filter (fault <> ''), []) as names,
        list_sort(list(queue_us) filter (queue_us is not null)) as queues,
        list_sort(list(run_us) filter (run_us is not null)) as runs
    from moments group by service, dialect, minute),
levelled as (
    select *, sum(backlog_change) over so_far as backlog, sum(running_change) over so_far as running
    from counted window so_far as (partition by service, dialect order by minute))
select *, minute::date as day, tally(names) as faults,
    round(share_of(queues, 0.5)) as queue_p50_us, round(share_of(queues, 0.9)) as queue_p90_us,
    round(share_of(queues, 0.99)) as queue_p99_us, round(share_of(queues, 0.999)) as queue_p999_us,
    round(share_of(runs, 0.5)) as run_p50_us, round(share_of(runs, 0.9)) as run_p90_us,
    round(share_of(runs, 0.99)) as run_p99_us, round(share_of(runs, 0.999)) as run_p999_us
from levelled where minute >= getvariable('since');

create temp table service_minutes_written as
select {minute_columns} from old_minutes
where day >= getvariable('since_day') and minute < getvariable('since')
union all
select {minute_columns} from changed_minutes;

create temp view anomalies_written as
with known as (
    select service, dialect, minute, day, submitted, failed + expired + dead + refused as failures,
        backlog, queue_p99_us, run_p99_us
    from (select * from old_minutes where day < getvariable('since_day')
        union all by name select * from service_minutes_written)
    where minute >= getvariable('since') - to_hours(getvariable('history_hours') + 1)),
scored as (
    select service, dialect, minute, day, metric, value::double as value,
        epoch(date_trunc('hour', minute))::bigint // 3600 as hour
    from known unpivot (value for metric in
        (submitted, failures, backlog, queue_p99_us, run_p99_us))),
hours as (
    select service, dialect, metric, hour, list(value) as numbers
    from scored group by service, dialect, metric, hour),
histories as (
    select *, list_sort(flatten(list(numbers) over (partition by service, dialect, metric
        order by hour range between getvariable('history_hours') preceding and 1 preceding)))
        as history
    from hours),
medians as (
    select * exclude (numbers), middle(history) as median from histories
    where hour >= epoch(date_trunc('hour', getvariable('since')))::bigint // 3600
        and len(history) >= getvariable('least_history')),
deviations as (
    select *, greatest(
        middle(list_sort(list_transform(history, lambda v: abs(v - median)))) * 1.4826::double,
        getvariable('floors')[metric] + abs(median) * getvariable('floor_share')) as deviation
    from medians),
compared as (
    select s.service, s.dialect, s.metric, s.minute, s.value, d.median, d.deviation,
        (s.value - d.median) / d.deviation as score, s.day
    from scored s join deviations d using (service, dialect, metric, hour)
    where s.minute >= getvariable('since'))
select * from compared where abs(score) > getvariable('threshold')
union all
select service, dialect, metric, minute, value, median, deviation, score, day from old_anomalies
where minute < getvariable('since');
