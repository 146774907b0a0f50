-- What is known of one trace file ($source): its row of source_file, and its requests counted.
WITH ended AS (
    SELECT outcome, count(*) AS requests
    FROM request
    WHERE source_file = $source
    GROUP BY outcome
),

kept AS (
    SELECT
        count(*) FILTER (replayable) AS replayable,
        min(arrival_at) AS first_arrival_at,
        max(arrival_at) AS last_arrival_at,
        coalesce(sum(isl_tokens), 0)::BIGINT AS isl_tokens,
        coalesce(sum(osl_tokens), 0)::BIGINT AS osl_tokens
    FROM request
    WHERE source_file = $source
)

SELECT
    f.format,
    f.size_bytes,
    f.sha256,
    f.rows_read,
    f.rows_kept,
    f.rows_rejected,
    f.detail,
    kept.*,
    (SELECT list({'key': outcome, 'value': requests} ORDER BY outcome) FROM ended) AS outcomes
FROM source_file AS f, kept
WHERE f.source_file = $source;
