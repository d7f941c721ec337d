-- The fastest query of the first requests of the example `requests`, whose tracks are on the
-- screen: from the scope `ask` to the end of the scope `answer`.
with polls as (
 select p.ts, p.ts + p.dur as ends, dense_rank() over (order by p.track_id) as lane
 from slice p join slice task on task.id = p.parent_id
 where p.name = 'poll' and task.name = 'respond')
select read.id as id, ask.ts as start_ns, go.ts + go.dur as end_ns
from flow f join flow g on g.slice_out = f.slice_in
join slice ask on ask.id = f.slice_out
join slice read on read.id = f.slice_in
join slice go on go.id = g.slice_in
join polls on ask.ts between polls.ts and polls.ends
where go.name = 'answer' and lane <= 9 and ask.track_id <> go.track_id
order by go.ts - ask.ts limit 1
