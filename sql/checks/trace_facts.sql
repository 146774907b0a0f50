-- One row of facts about a trace, from which its checks are drawn. $source is what the workspace calls it; rejected reasons
-- that begin with $aside are rows that are no request, not broken ones. Lengths are those of the requests that can be
-- replayed.
WITH files AS (
    SELECT source_file, rows_read FROM source_file WHERE named_by = $source
),

kept AS (
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
    WHERE source_file IN (SELECT source_file FROM files)
),

caps AS (
    SELECT
        count(*) FILTER (r.isl_tokens = kept.isl_max) AS isl_at_max,
        count(*) FILTER (r.osl_tokens = kept.osl_max) AS osl_at_max,
        count(*) FILTER (r.isl_tokens >= kept.isl_max * (1 - $near) AND r.isl_tokens < kept.isl_max) AS isl_near_max,
        count(*) FILTER (r.osl_tokens >= kept.osl_max * (1 - $near) AND r.osl_tokens < kept.osl_max) AS osl_near_max
    FROM request AS r, kept
    WHERE r.source_file IN (SELECT source_file FROM files) AND r.replayable
),

steps AS (
    SELECT count(*) FILTER (back) AS steps_back
    FROM (
        SELECT arrival_at < lag(arrival_at) OVER (PARTITION BY source_file ORDER BY line) AS back
        FROM request
        WHERE source_file IN (SELECT source_file FROM files)
    )
),

rejects AS (
    SELECT
        count(*) FILTER (NOT starts_with(reason, $aside)) AS broken,
        count(*) FILTER (starts_with(reason, $aside)) AS aside,
        min_by('line ' || line || ': ' || reason, line) FILTER (NOT starts_with(reason, $aside)) AS first_reason
    FROM rejected_row
    WHERE source_file IN (SELECT source_file FROM files)
),

read AS (
    SELECT coalesce(sum(rows_read), 0)::BIGINT AS rows_read FROM files
)

SELECT * FROM kept, caps, steps, rejects, read;
