-- Requests without an id of one file ($source) and of those that overlap it (in stretches), as far as their stretches reach:
-- what a request is apart from where it stands, as one number, and of like ones the how many-th of its file it is.
-- One in $every is taken, the same ones on both sides.
CREATE OR REPLACE TEMP TABLE compared AS
WITH reach AS (
    SELECT min(first_at) AS first_at, max(last_at) AS last_at FROM stretches
),

stated AS (
    SELECT
        source_file = $source AS mine,
        source_file,
        line,
        coalesce(written_at, arrival_at) AS came_at,
        hash(*COLUMNS(request.* EXCLUDE (source_file, line, arrival_at, written_at, censored))) AS what
    FROM request
    WHERE request_id IS NULL
        AND (source_file = $source OR source_file IN (SELECT source_file FROM stretches))
)

SELECT stated.*, row_number() OVER (PARTITION BY mine, came_at, what ORDER BY source_file, line) AS nth
FROM stated, reach
WHERE came_at BETWEEN reach.first_at AND reach.last_at AND what % $every = 0;
