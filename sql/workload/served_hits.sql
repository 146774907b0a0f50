-- Input tokens that the source says were served from a cache, over those of the requests it says it of. $source is what the
-- workspace calls the trace.
SELECT
    coalesce(sum(cached_tokens), 0)::BIGINT AS cached_tokens,
    coalesce(sum(isl_tokens), 0)::BIGINT AS isl_tokens
FROM request
WHERE source_file IN (SELECT source_file FROM source_file WHERE named_by = $source)
    AND replayable
    AND cached_tokens IS NOT NULL;
