-- What shares of a trace's requests have in common: by model, adapter, tenant, feature and outcome, the most frequent values
-- of each, the rest as 'others'. $source is what the workspace calls the trace, $most how many values stand alone.
WITH counted AS (
    SELECT
        CASE
            WHEN grouping(model) = 0 THEN 'model'
            WHEN grouping(adapter) = 0 THEN 'adapter'
            WHEN grouping(tenant) = 0 THEN 'tenant'
            WHEN grouping(outcome) = 0 THEN 'outcome'
            WHEN grouping(censored) = 0 THEN 'censored'
            WHEN grouping(finish_reason) = 0 THEN 'finish_reason'
            WHEN grouping(streaming) = 0 THEN 'streaming'
            WHEN grouping(structured_output) = 0 THEN 'structured_output'
            WHEN grouping(logprobs) = 0 THEN 'logprobs'
            WHEN grouping(speculative) = 0 THEN 'speculative'
            ELSE 'multimodal'
        END AS dimension,
        -- In every set all columns but its own are NULL.
        coalesce(
            model, adapter, tenant, outcome, censored, finish_reason, streaming::VARCHAR, structured_output::VARCHAR,
            logprobs::VARCHAR, speculative::VARCHAR, multimodal::VARCHAR
        ) AS value,
        count(*) AS requests,
        sum(isl_tokens) AS isl_tokens,
        count(isl_tokens) AS isl_known,
        sum(osl_tokens) AS osl_tokens,
        count(osl_tokens) AS osl_known
    FROM request
    WHERE source_file IN (SELECT source_file FROM source_file WHERE named_by = $source)
    GROUP BY GROUPING SETS (
        (model), (adapter), (tenant), (outcome), (censored), (finish_reason), (streaming), (structured_output),
        (logprobs), (speculative), (multimodal)
    )
),

told AS (
    SELECT *, row_number() OVER (PARTITION BY dimension ORDER BY requests DESC, value) AS place
    FROM counted
    QUALIFY count(value) OVER (PARTITION BY dimension) > 0
),

named AS (
    SELECT * REPLACE (CASE WHEN place > $most THEN 'others' ELSE coalesce(value, 'not said') END AS value) FROM told
)

SELECT
    dimension,
    (row_number() OVER (PARTITION BY dimension ORDER BY min(place)) - 1)::INTEGER AS position,
    value,
    sum(requests)::BIGINT AS requests,
    sum(requests) / sum(sum(requests)) OVER (PARTITION BY dimension) AS share,
    sum(isl_tokens) / nullif(sum(isl_known), 0) AS isl_mean_tokens,
    sum(osl_tokens) / nullif(sum(osl_known), 0) AS osl_mean_tokens
FROM named
GROUP BY dimension, value
ORDER BY dimension, position;
