-- Sessions, their days and resources; see `pipeline/sessions.py`, `session_days.py`,
-- `resources.py` and `worker_days.py`.
create temp table base_sessions as
with grouped as (
    select peer, session,
        max(case when kind = 'joined' then "at" end) as joined_at,
        max(case when kind = 'joined' then worker end) as worker,
        max(case when kind = 'joined' then dialect end) as dialect,
        max(case when kind = 'joined' then principal end) as principal,
        arg_max(detail, seq) filter (kind in ('joined', 'resynced')) as services,
        count(*) filter (kind = 'resynced') as resyncs,
        max(seq) filter (kind <> 'left') as seen_seq,
        min(seq) filter (kind = 'left') as left_seq,
        arg_min("at", seq) filter (kind = 'left') as said_at,
        arg_min(detail, seq) filter (kind = 'left') as said_why,
        arg_min(fault, seq) filter (kind = 'left') as said_fault,
        arg_min(count, seq) filter (kind = 'left') as said_beats
    from session_records where session is not null group by peer, session),
followed as (
    select *, lead(joined_at) over (partition by peer order by session) as next_at from grouped),
marked as (
    select f.*, b."at" as mark_at, b.kind as mark
    from followed f asof left join boundaries b on f.seen_seq < b.seq),
ended as (
    select *, case when left_seq is not null then said_at
        when mark_at is not null then least(mark_at, next_at) else next_at end as left_at
    from marked)
select peer, session, worker, dialect, principal, services, joined_at, resyncs, left_seq, left_at,
    case when left_seq is not null then said_why
        when mark_at is not null then 'the broker ' || mark
        when next_at is not null then 'joined again' else '' end as why,
    coalesce(said_fault, '') as fault, coalesce(said_beats, 0) as beats,
    case when left_seq is not null or next_at is not null then left_at::date end as day
from ended;

create temp table all_sessions as
select peer, session, worker, joined_at, left_at from old_sessions where day is not null
union all
select peer, session, worker, joined_at, left_at from base_sessions;

create temp table work as
with cut as (
    select a.peer, coalesce(a.session, 0) as session, a.worker, a.job, a.dispatched_at, a.ended_at,
        a.run_us, coalesce(a.ended_at, getvariable('horizon')) as until_at,
        a.outcome in ('failed', 'dead', 'expired') as has_failed, a.fault = 'worker_lost' as is_lost
    from recent_assignments a),
limited as (
    select c.*, case when c.session = 0 or b.joined_at is not null
            then least(c.until_at, coalesce(b.left_at, getvariable('horizon')))
        else c.dispatched_at end as busy_until
    from cut c left join all_sessions b on b.peer = c.peer and b.session = c.session),
daily as (
    select *, unnest(days_of(dispatched_at, until_at))::date as day from limited),
bounded as (
    select *, greatest(dispatched_at, day::timestamp) as start_at,
        greatest(greatest(dispatched_at, day::timestamp),
            least(busy_until, (day + 1)::timestamp)) as over_at
    from daily),
covered as (
    select *, coalesce(max(over_at) over (partition by peer, session, day order by start_at, over_at
        rows between unbounded preceding and 1 preceding), start_at) as covered_at
    from bounded)
select peer, session, worker, day, job, run_us, has_failed, is_lost,
    greatest(0, span_us(greatest(start_at, covered_at), over_at)) as busy_us,
    (dispatched_at::date = day)::bigint as dispatched,
    coalesce(ended_at::date = day, false)::bigint as ended
from covered;

create temp table session_days_written as
with connected as (
    select *, unnest(days_of(joined_at, coalesce(left_at, getvariable('horizon'))))::date as day
    from all_sessions),
rows_of_days as (
    select peer, session, worker, day,
        span_us(greatest(joined_at, day::timestamp), greatest(greatest(joined_at, day::timestamp),
            least(coalesce(left_at, getvariable('horizon')), (day + 1)::timestamp)))
            as connected_us,
        coalesce(joined_at::date = day, false)::bigint as joins,
        coalesce(left_at::date = day, false)::bigint as leaves
    from connected
    union all by name
    select peer, session, worker, day, busy_us, dispatched, ended,
        case when ended = 1 then has_failed::bigint end as failed,
        case when ended = 1 then is_lost::bigint end as lost,
        case when ended = 1 then run_us end as run_us,
        case when ended = 1 then {'us': run_us, 'job': job} end as slowest
    from work where busy_us > 0 or dispatched = 1 or ended = 1),
summed as (
    select peer, session, day, max(worker) as worker,
        coalesce(sum(connected_us), 0) as connected_us, coalesce(sum(busy_us), 0) as busy_us,
        coalesce(sum(dispatched), 0) as dispatched, coalesce(sum(ended), 0) as ended,
        coalesce(sum(failed), 0) as failed, coalesce(sum(lost), 0) as lost,
        coalesce(sum(run_us), 0) as run_us, max(slowest) filter (slowest.us is not null) as slowest,
        coalesce(sum(joins), 0) as joins, coalesce(sum(leaves), 0) as leaves
    from rows_of_days group by peer, session, day)
select * exclude (slowest), slowest.us as slowest_us, slowest.job as slowest_job from summed;

create temp view sessions_written as
with days as (
    select peer, session, dispatched, busy_us from old_session_days
    union all
    select peer, session, dispatched, busy_us from session_days_written),
summed as (
    select peer, session, sum(dispatched)::bigint as assignments, sum(busy_us)::bigint as busy_us
    from days group by peer, session),
joined as (
    select b.*, coalesce(s.assignments, 0) as assignments, coalesce(s.busy_us, 0) as busy_us,
        span_us(b.joined_at, coalesce(b.left_at, getvariable('horizon'))) as connected_us
    from base_sessions b left join summed s on s.peer = b.peer and s.session = b.session)
select *, case when connected_us > 0 then busy_us / connected_us end as busy_share from joined;

create temp view resources_written as
with owns as (
    select *, row_number() over (partition by peer, session order by seq) as number,
        lead("at") over (partition by peer, session order by seq) as next_at
    from session_records where kind = 'owns' and session is not null),
owned as (
    select * from (
        select * exclude (detail), unnest(list_distinct(string_split(detail, chr(10)))) as resource
        from owns)
    where resource <> ''),
numbered as (
    select *, number - row_number() over (partition by peer, session, resource order by seq)
        as interval_number
    from owned),
merged as (
    select peer, session, resource, interval_number, max(worker) as worker, min(seq) as since_seq,
        min("at") as since_at, max(seq) as last_seq
    from numbered group by peer, session, resource, interval_number)
select m.resource, m.worker, m.peer, m.session, m.since_seq, m.since_at,
    coalesce(o.next_at, b.left_at) as until_at, b.day
from merged m
join owns o on o.seq = m.last_seq
join base_sessions b on b.peer = m.peer and b.session = m.session;

create temp view worker_days_written as
with summed as (
    select worker, day, count(distinct (peer, session)) as sessions, sum(leaves) as flaps,
        sum(connected_us)::bigint as connected_us, sum(busy_us)::bigint as busy_us,
        sum(dispatched) as dispatched, sum(ended)::bigint as ended, sum(failed) as failed,
        sum(lost) as lost, sum(run_us)::bigint as run_us,
        max({'us': slowest_us, 'job': slowest_job}) filter (slowest_us is not null) as slowest
    from session_days_written group by worker, day)
select *, case when connected_us > 0 then busy_us / connected_us end as utilisation,
    case when ended > 0 then floor(run_us / ended) end as mean_run_us,
    slowest.us as slowest_us, slowest.job as slowest_job
from summed;
