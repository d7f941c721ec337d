-- p99 of every scope by host and version, within 1/64 of the exact one, from the sketches, which
-- merge by adding up the counts of each bucket.
WITH merged AS (
    SELECT host, version, name, b.middle_ns AS middle_ns, sum(b.count) AS spans
    FROM (SELECT host, version, name, explode(buckets) AS b FROM sketches)
    GROUP BY host, version, name, b.middle_ns
),
ranked AS (
    SELECT *,
           sum(spans) OVER (PARTITION BY host, version, name ORDER BY middle_ns) AS seen,
           sum(spans) OVER (PARTITION BY host, version, name) AS total
    FROM merged
),
totals AS (
    SELECT host,
           version,
           name,
           CAST(sum(count) AS BIGINT) AS spans,
           CAST(sum(sum_ns) AS BIGINT) AS sum_ns,
           CAST(sum(self_sum_ns) AS BIGINT) AS self_sum_ns,
           min(min_ns) AS least_ns,
           max(max_ns) AS greatest_ns
    FROM sketches
    GROUP BY host, version, name
)
SELECT host,
       version,
       name,
       totals.spans AS spans,
       sum_ns,
       self_sum_ns,
       -- The first bucket with 99 of 100 spans in it or before it.
       greatest(least_ns, least(greatest_ns, min(middle_ns))) AS p99_ns
FROM ranked
JOIN totals USING (host, version, name)
WHERE seen * 100 >= total * 99
GROUP BY host, version, name, totals.spans, sum_ns, self_sum_ns, least_ns, greatest_ns
ORDER BY host, version, name
