-- The new records, each number once; see `pipeline/events.py` and `pipeline/sequence.py`.
create temp table arrived as
select *, "at"::date as day from raw
where seq > getvariable('after') and seq <= getvariable('upto');

-- Of several records with one number the smallest counts, by its columns in order.
create temp table new_records as
select * from arrived qualify row_number() over (partition by seq order by {other_columns}) = 1;

create temp table repeats as
select seq, count(*) as times, min("at") as "at" from arrived group by seq having count(*) > 1;

create temp table gaps as
select seq from (select unnest(range(getvariable('after') + 1, getvariable('upto') + 1)) as seq)
where seq not in (select seq from new_records);
