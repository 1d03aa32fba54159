-- Control records and worker sessions; see `pipeline/control.py`.
create temp table control as
select seq, "at", kind, peer, worker, dialect, principal, fault, detail, count from old_control
union all
select seq, "at", kind, peer, worker, dialect, principal, fault, detail, count from new_records
where kind in ('joined', 'resynced', 'left', 'owns', 'started', 'stopped');

create temp table boundaries as
select seq, "at", kind from control where kind in ('started', 'stopped');

create temp table session_records as
select *, max(case when kind = 'joined' then seq end) over (partition by peer order by seq)
    as session
from control where kind in ('joined', 'resynced', 'left', 'owns');

create temp table spans as
select peer, seq as said_seq,
    case when kind = 'left' then "at" + to_days(getvariable('left_days')) end as until_at,
    {'session': case when kind <> 'left' then session end, 'said': kind, 'said_seq': seq} as span
from session_records
where kind in ('joined', 'resynced', 'left');

create temp view carried_control as
with marked as (
    select *,
        coalesce(max(case when kind = 'joined' then seq end) over (partition by peer), 0) as newest,
        max(case when kind = 'left' then seq end) over (partition by peer) as gone
    from session_records)
select seq, "at", kind, peer, worker, dialect, principal, fault, detail, count from marked
where case when coalesce(gone > newest, false)
        then seq = gone and "at" + to_days(getvariable('left_days')) >= getvariable('horizon')
    else coalesce(session, 0) = newest end
union all
select seq, "at", kind, peer, worker, dialect, principal, fault, detail, count from control
where kind in ('started', 'stopped');
