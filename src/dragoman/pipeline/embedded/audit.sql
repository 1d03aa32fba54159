-- The breaches that one step finds; see `pipeline/audit.py` and `pipeline/fairness.py`.
create temp view unfair as
with services as (select distinct service from suspects),
points as (
    select service, client, job, seq, "at", 'turn' as mark, null::bigint as wait, 1 as is_turn
    from old_dispatches where kind = 'dispatched' and service in (select service from services)
        and seq >= (select min(submitted_seq) from suspects)
    union all
    select service, client, job, submitted_seq, submitted_at, 'from', submitted_seq, 0 from suspects
    union all
    select service, client, job, until_seq, until_at, 'to', submitted_seq, 0 from suspects),
turned as (
    select *, sum(is_turn) over (partition by service order by seq, is_turn
        rows between unbounded preceding and current row)::bigint as turn
    from points),
counted as (
    select *, max(case when is_turn = 1 then turn end) over of_client as own_turn,
        max(case when is_turn = 1 then seq end) over of_client as own_seq
    from turned window of_client as (partition by service, client order by seq, is_turn
        rows between unbounded preceding and 1 preceding)),
pairs as (
    select e.*, s.turn as from_turn, s.seq as from_seq,
        e.own_turn is not null and (e.own_turn, e.own_seq) > (s.turn, s.seq) as has_own
    from counted e join counted s on s.wait = e.wait and s.mark = 'from' where e.mark = 'to')
select job, service, client, "at", seq,
    case when has_own then own_seq else from_seq end as since_seq,
    turn - case when has_own then own_turn else from_turn end as turns
from pairs;

create temp view audit_written as
select breach as rule,
    case breach
        when 'stale_result_applied' then [held_seq, seq]
        when 'result_without_dispatch' then [submitted_seq, seq]
        when 'lost_worker_dispatch' then [said_seq, seq]
        else [said_seq, held_seq, seq] end as seqs,
    "at", job, service, client, worker,
    case breach
        when 'stale_result_applied' then format(
            'applied attempt {} of {}, but part {} was dispatched to {} as attempt {}',
            attempt, worker, part, held_worker, held_attempt)
        when 'result_without_dispatch' then format(
            'part {} has a result but was never dispatched', part)
        when 'lost_worker_dispatch' then format(
            'dispatched to {}, which left at record {}', worker, said_seq)
        else format('requeued as lost, but {} was connected since record {}', worker, said_seq)
        end as words,
    case when end_seq is not null then "at"::date end as day
from notable
where breach is not null and submitted_seq is not null and (end_seq is null or seq <= end_seq)
union all
select case when kind = 'ended' then 'two_final_states' else 'changed_after_end' end,
    [end_seq, seq], "at", job, service, client, worker,
    format('{} after the job ended at record {}', kind, end_seq), "at"::date
from (
    select seq, "at", kind, job, service, client, worker, end_seq from notable
    where submitted_seq is not null and seq > end_seq
    union all
    select s.seq, s."at", s.kind, s.job, s.service, s.client, s.worker, k.ended_seq
    from strays s join known_jobs k on k.job = s.job and k.submitted_at = s.submitted_at)
where kind in ('ended', 'dispatched', 'requeued', 'forwarded', 'gathered')
union all
select 'result_without_dispatch', [s.seq], s."at", s.job, s.service, s.client, s.worker,
    format('{}, but the job has no submitted record', s.kind), s."at"::date
from strays s anti join known_jobs k on k.job = s.job and k.submitted_at = s.submitted_at
where s.kind in ('ended', 'gathered')
union all
select 'no_final_state', [submitted_seq, last_seq], deadline_at, job, service, client, worker,
    format('still {}, {} s past its deadline', state,
        floor(span_us(deadline_at, getvariable('horizon')) / 1000000 + 0.5)::bigint), null
from jobs_written
where day is null and span_us(deadline_at, getvariable('horizon')) > getvariable('grace_us')
union all
select 'unfair_wait', [since_seq, seq], "at", job, service, client, '',
    format('waited while its service made {} dispatches for other clients', turns), "at"::date
from unfair where turns > getvariable('most_turns')
union all
select 'sequence_gap', [seq], null, '', '', '', '', format('record {} is missing', seq),
    date '1970-01-01'
from (select unnest(range("first", "last" + 1)) as seq from gaps)
union all
select 'sequence_repeat', [seq], "at", '', '', '', '',
    format('{} records have number {}', times, seq), "at"::date
from repeats;
