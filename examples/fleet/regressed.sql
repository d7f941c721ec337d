-- The scopes of a version whose self time per span grew by over 15 % since yesterday. A scope
-- around a slow one has a longer duration too, but not more self time.
WITH days AS (
    SELECT version,
           name,
           date,
           CAST(sum(count) AS BIGINT) AS spans,
           CAST(sum(self_sum_ns) AS DOUBLE) / CAST(sum(count) AS DOUBLE) AS self_ns
    FROM sketches
    GROUP BY version, name, date
),
newest AS (SELECT max(date) AS today FROM sketches)
SELECT now.version AS version,
       now.name AS name,
       before.spans AS spans_before,
       now.spans AS spans_now,
       before.self_ns AS self_before_ns,
       now.self_ns AS self_now_ns,
       now.self_ns / before.self_ns AS ratio
FROM days AS now
JOIN newest ON now.date = newest.today
JOIN days AS before
  ON before.version = now.version AND before.name = now.name AND before.date = date_add(newest.today, -1)
WHERE now.self_ns > 1.15 * before.self_ns
ORDER BY ratio DESC, version, name
