-- Sums by day; see `pipeline/clients.py`, `accounting.py`, `bridges.py` and `slo.py`.
create temp view ended_jobs as select * from recent_jobs where day is not null;

create temp view clients_written as
with moments as (
    select client, principal, dialect_in as dialect, submitted_at as moment, 1 as submitted,
        request_bytes
    from recent_jobs
    union all by name
    select client, principal, dialect_in as dialect, ended_at as moment, state, result_bytes
    from recent_jobs where ended_at is not null
    union all by name
    select client, principal, dialect, "at" as moment, 1 as refused from refusals)
select client, principal, dialect, moment::date as day, min(moment) as first_at,
    max(moment) as last_at,
    coalesce(sum(submitted), 0) as submitted, coalesce(sum(refused), 0) as refused,
    count(*) filter (state = 'succeeded') as succeeded,
    count(*) filter (state = 'failed') as failed,
    count(*) filter (state = 'expired') as expired,
    count(*) filter (state = 'cancelled') as cancelled,
    count(*) filter (state = 'dead') as dead,
    coalesce(sum(request_bytes), 0) as request_bytes,
    coalesce(sum(result_bytes), 0) as result_bytes
from moments where moment::date >= getvariable('since_day')
group by client, principal, dialect, moment::date;

create temp view accounting_written as
with used as (
    select day, client, principal, service, count(*) as jobs,
        count(*) filter (state = 'succeeded') as succeeded,
        sum(dispatches)::bigint as dispatches, sum(run_us)::bigint as run_us,
        sum(request_bytes)::bigint as request_bytes, sum(result_bytes)::bigint as result_bytes
    from ended_jobs group by day, client, principal, service)
select *, jobs * getvariable('per_job')
    + floor(run_us * getvariable('per_run_second') / 1000000)::bigint
    + floor((request_bytes + result_bytes) * getvariable('per_mebibyte') / 1048576)::bigint as bill
from used;

create temp view bridges_written as
with summed as (
    select day, dialect_in, dialect_out, count(*) as jobs,
        count(*) filter (state = 'succeeded') as succeeded,
        count(*) filter (fault = 'unmappable') as unmappable,
        sum(request_bytes) as request_bytes, sum(result_bytes) as result_bytes,
        sum(queue_us) as queue_us, sum(run_us) as run_us,
        list_sort(list(total_us) filter (total_us is not null)) as totals
    from ended_jobs group by day, dialect_in, dialect_out)
select *, round(share_of(totals, 0.5)) as total_p50_us, round(share_of(totals, 0.99)) as total_p99_us
from summed;

create temp view slo_written as
with days as (
    select service, day,
        count(*) filter (state = 'succeeded' and total_us <= getvariable('good_within_us')) as good,
        count(*) filter (not (state = 'succeeded' and total_us <= getvariable('good_within_us')))
            as bad
    from ended_jobs where state <> 'cancelled' group by service, day
    union all
    select service, day, good, bad from old_slo where day < getvariable('since_day')),
windowed as (
    select *, sum(good) over recent::bigint as window_good, sum(bad) over recent::bigint as window_bad
    from days
    window recent as (partition by service order by day - date '1970-01-01'
        range between getvariable('window_days') - 1 preceding and current row))
select *, getvariable('objective') as objective,
    bad / (good + bad) / (1.0::double - getvariable('objective')) as burn_rate,
    1.0::double - window_bad / (window_good + window_bad)
        / (1.0::double - getvariable('objective')) as budget_left
from windowed where day >= getvariable('since_day');
