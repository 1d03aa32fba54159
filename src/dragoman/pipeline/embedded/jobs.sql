-- Records of jobs with what surrounds them, then `jobs` and `assignments`;
-- see `pipeline/job_records.py`, `job_fold.py`, `jobs.py`, `assignments.py` and `audit.py`.
create temp table job_records as
select * exclude (held_seq, held_attempt, held_worker, end_seq, end_at, end_state, end_fault,
    end_attempt, end_nbytes, submitted_seq, dialect_in)
from old_life where submitted_seq is not null and end_seq is null
union all by name
select r.* exclude (digest, key, count, version, day, span_peer),
    unnest(case when coalesce(r."at" <= s.until_at, true) then s.span end),
    case when r.kind = 'requeued' then b.seq end as boundary_seq
from (
    select *, case when kind in ('dispatched', 'requeued') then peer end as span_peer
    from new_records
    where kind in ('submitted', 'bound', 'moved', 'dispatched', 'accepted', 'requeued', 'forwarded',
        'gathered', 'ended', 'cancel_asked')) r
asof left join spans s on r.span_peer = s.peer and r.seq > s.said_seq
asof left join boundaries b on r.seq > b.seq;

create temp table ends as
select submitted_at, job, min(seq) as end_seq, arg_min("at", seq) as end_at,
    arg_min(state, seq) as end_state, arg_min(fault, seq) as end_fault,
    arg_min(attempt, seq) as end_attempt, arg_min(nbytes, seq) as end_nbytes
from job_records where kind = 'ended' group by submitted_at, job;

create temp table firsts as
select submitted_at, job, max(seq) as submitted_seq, arg_max(dialect, seq) as dialect_in
from job_records where kind = 'submitted' group by submitted_at, job;

create temp table annotated as
with held as (
    select *, max(case when kind = 'dispatched' then seq end)
        over (partition by submitted_at, job, part order by seq) as held_seq
    from job_records),
found as (
    select r.*, h.attempt as held_attempt, h.worker as held_worker,
        e.* exclude (submitted_at, job), f.* exclude (submitted_at, job)
    from held r
    left join (select seq, attempt, worker from job_records where kind = 'dispatched') h
        on h.seq = r.held_seq
    left join ends e on e.job = r.job and e.submitted_at is not distinct from r.submitted_at
    left join firsts f on f.job = r.job and f.submitted_at is not distinct from r.submitted_at)
select *, case
    when kind in ('ended', 'gathered') and attempt > 0 and held_seq is not null
        and (attempt <> held_attempt or (worker <> '' and worker <> held_worker))
        then 'stale_result_applied'
    when kind in ('ended', 'gathered') and held_seq is null and (attempt > 0 or worker <> ''
        or (state = 'succeeded' and not starts_with(detail, 'memoised')))
        then 'result_without_dispatch'
    when kind = 'dispatched' and said = 'left' then 'lost_worker_dispatch'
    when kind = 'requeued' and fault = 'worker_lost' and said_seq < held_seq and said <> 'left'
        and coalesce(boundary_seq, 0) < held_seq then 'lease_broken'
    end as breach
from found;

create temp table notable as
select * from annotated
where submitted_seq is null or end_seq is null or seq > end_seq or breach is not null;

create temp view carried_life as select * exclude (breach) from notable;

create temp table in_time as
select * from annotated
where submitted_seq is not null and (end_seq is null or seq <= end_seq);

create temp table folded as
select submitted_at, job,
    arg_max(state, seq) filter (state <> '' and kind <> 'gathered') as came_state,
    min(seq) filter (kind = 'dispatched') as started_seq,
    arg_min("at", seq) filter (kind = 'dispatched') as started_at,
    coalesce(arg_max(worker, seq) filter (kind = 'dispatched'), '') as worker,
    coalesce(arg_max(dialect, seq) filter (kind = 'dispatched'), '') as dialect_out,
    coalesce(arg_max(service, seq) filter (kind = 'dispatched'), '') as served_by,
    count(*) filter (kind = 'dispatched') as dispatches,
    max(len(string_split(detail, chr(10)))) filter (kind = 'bound') as bound_parts,
    max(part + 1) filter (kind = 'moved') as moved_parts,
    count(*) filter (kind = 'requeued') as requeues,
    count(*) filter (kind = 'forwarded') as hops,
    count(*) filter (kind = 'cancel_asked') as cancels,
    max(attempt) as attempts,
    coalesce(sum(nbytes) filter (kind in ('ended', 'gathered')), 0) as result_bytes,
    max(seq) as last_seq
from in_time group by submitted_at, job;

create temp table jobs_written as
select s.job, s.client, s.principal, s.service, f.served_by, s.task, s.dialect as dialect_in,
    f.dialect_out, s.target, s.priority, s.strict as is_strict, s.terms,
    coalesce(s.end_state, f.came_state) as state, coalesce(s.end_fault, '') as fault, f.worker,
    greatest(coalesce(f.bound_parts, 1), f.moved_parts) as parts, f.dispatches, f.attempts,
    f.requeues, f.hops, f.cancels, s.seq as submitted_seq, s.submitted_at, s.deadline_at,
    f.started_seq, f.started_at, s.end_seq as ended_seq, s.end_at as ended_at, f.last_seq,
    span_us(s.submitted_at, coalesce(f.started_at, s.end_at)) as queue_us,
    span_us(coalesce(f.started_at, s.end_at), s.end_at) as run_us,
    span_us(s.submitted_at, s.end_at) as total_us,
    s.nbytes as request_bytes, f.result_bytes, s.end_at::date as day
from in_time s
join folded f on f.job = s.job and f.submitted_at is not distinct from s.submitted_at
where s.kind = 'submitted'
qualify row_number() over (partition by s.submitted_at, s.job order by s.seq desc) = 1;

create temp table assignments_written as
with accepted as (
    select held_seq, min("at") as accepted_at from in_time
    where kind = 'accepted' and held_seq is not null group by held_seq),
stopped as (
    select held_seq, min(seq) as stop_seq, arg_min("at", seq) as stop_at,
        arg_min(case when kind = 'gathered' then state else kind end, seq) as stop_outcome,
        arg_min(fault, seq) as stop_fault, arg_min(nbytes, seq) as stop_nbytes
    from in_time where kind in ('requeued', 'forwarded', 'gathered') and held_seq is not null
    group by held_seq)
select d.job, d.submitted_at, d.part, d.attempt, d.service, d.client, d.worker, d.peer, d.session,
    d.dialect_in, d.dialect, coalesce(s.stop_outcome, d.end_state, 'running') as outcome,
    coalesce(s.stop_fault, d.end_fault, '') as fault, d.seq as dispatched_seq,
    d."at" as dispatched_at, a.accepted_at, coalesce(s.stop_seq, d.end_seq) as ended_seq,
    coalesce(s.stop_at, d.end_at) as ended_at,
    span_us(d."at", coalesce(s.stop_at, d.end_at)) as run_us,
    case when s.stop_seq is null
            then case when d.end_attempt = d.attempt then d.end_nbytes else 0 end
        when s.stop_outcome in ('requeued', 'forwarded') then 0
        else s.stop_nbytes end as result_bytes,
    d.end_at::date as day
from in_time d
left join accepted a on a.held_seq = d.seq
left join stopped s on s.held_seq = d.seq
where d.kind = 'dispatched';

-- What the days from the first changed one on have now. Open rows are written by every step.
create temp view recent_jobs as
from old_jobs where day is not null union all by name from jobs_written;

create temp view recent_assignments as
from old_assignments where day is not null union all by name from assignments_written;

create temp table refusals as
select "at", service, client, principal, dialect, fault from old_events where kind = 'refused'
union all
select "at", service, client, principal, dialect, fault from new_records where kind = 'refused';

create temp table strays as
select * from notable where submitted_seq is null
    and exists (select 1 from notable where submitted_seq is null and submitted_at is not null);

create temp table suspects as
select job, service, client, submitted_seq, submitted_at,
    coalesce(started_seq, ended_seq) as until_seq, coalesce(started_at, ended_at) as until_at
from jobs_written
where day is not null and target in ('any', '') and not contains(terms, '"needs"')
    and coalesce(started_seq, ended_seq) - submitted_seq > getvariable('most_turns');
