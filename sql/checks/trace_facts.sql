-- One row of facts about a trace, from which its checks are drawn. $source names it; rejected reasons that begin with
-- $aside are rows that are no request, not broken ones. Lengths are those of the requests that can be replayed.
WITH kept AS (
    SELECT
        count(*) AS kept,
        min(arrival_at) AS first_at,
        max(arrival_at) AS last_at,
        count(DISTINCT arrival_at) AS times,
        count(*) FILTER (replayable) AS replayable,
        count(*) FILTER (outcome IN ('failed', 'rejected')) AS failed,
        count(*) FILTER (outcome = 'cancelled') AS cancelled,
        count(*) FILTER (outcome = 'cache_hit') AS cache_hits,
        count(*) FILTER (outcome IN ('ok', 'unknown') AND NOT replayable) AS unmeasured,
        min(isl_tokens) FILTER (replayable) AS isl_min,
        max(isl_tokens) FILTER (replayable) AS isl_max,
        min(osl_tokens) FILTER (replayable) AS osl_min,
        max(osl_tokens) FILTER (replayable) AS osl_max
    FROM request
    WHERE source_file = $source
),

caps AS (
    SELECT
        count(*) FILTER (r.isl_tokens = kept.isl_max) AS isl_at_max,
        count(*) FILTER (r.osl_tokens = kept.osl_max) AS osl_at_max
    FROM request AS r, kept
    WHERE r.source_file = $source AND r.replayable
),

steps AS (
    SELECT count(*) FILTER (back) AS steps_back
    FROM (SELECT arrival_at < lag(arrival_at) OVER (ORDER BY line) AS back FROM request WHERE source_file = $source)
),

rejects AS (
    SELECT
        count(*) FILTER (NOT starts_with(reason, $aside)) AS broken,
        count(*) FILTER (starts_with(reason, $aside)) AS aside,
        min_by('line ' || line || ': ' || reason, line) FILTER (NOT starts_with(reason, $aside)) AS first_reason
    FROM rejected_row
    WHERE source_file = $source
),

read AS (
    SELECT coalesce(max(rows_read), 0) AS rows_read FROM source_file WHERE source_file = $source
)

SELECT * FROM kept, caps, steps, rejects, read;
