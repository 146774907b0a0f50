-- For every file that overlaps: requests of the new file in the common stretch, how many of them stand in the warehouse
-- already, and how many would if they had come a few clock steps earlier or later, which is what chance alone makes.
WITH step AS (
    SELECT min(gap) AS gap
    FROM (SELECT came_at - lag(came_at) OVER (ORDER BY came_at) AS gap FROM (SELECT DISTINCT came_at FROM compared))
),

shifts AS (
    SELECT n, n * coalesce(gap, INTERVAL 1 SECOND) AS shift FROM step, (VALUES (-2), (-1), (0), (1), (2)) AS v (n)
),

theirs AS (
    SELECT came_at, what, count(*) AS times FROM compared WHERE NOT mine GROUP BY came_at, what
),

found AS (
    SELECT o.source_file, s.n, count(*) AS requests, count(t.times) AS alike
    FROM stretches AS o
    JOIN compared AS m ON m.mine AND m.came_at BETWEEN o.first_at AND o.last_at
    CROSS JOIN shifts AS s
    LEFT JOIN theirs AS t ON t.came_at = m.came_at + s.shift AND t.what = m.what AND t.times >= m.nth
    GROUP BY o.source_file, s.n
)

SELECT
    source_file,
    max(requests) AS requests,
    max(alike) FILTER (n = 0) AS alike,
    max(alike) FILTER (n <> 0) AS by_chance
FROM found
GROUP BY source_file
ORDER BY source_file;
