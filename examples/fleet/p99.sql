-- p99 of every scope by host and version, exact, from the spans.
SELECT host,
       version,
       name,
       count(*) AS spans,
       CAST(sum(dur_ns) AS BIGINT) AS sum_ns,
       CAST(sum(self_ns) AS BIGINT) AS self_sum_ns,
       CAST(percentile_disc(0.99) WITHIN GROUP (ORDER BY dur_ns) AS BIGINT) AS p99_ns
FROM spans
GROUP BY host, version, name
ORDER BY host, version, name
