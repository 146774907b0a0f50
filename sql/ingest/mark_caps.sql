-- Requests of one file cut at a length so many share that it must be a cap; NULL lengths mark nothing.
UPDATE request
SET censored = CASE WHEN isl_tokens = $isl_cap THEN 'input_cap' ELSE 'output_cap' END
WHERE source_file = $source
    AND replayable
    AND censored IS NULL
    AND coalesce(isl_tokens = $isl_cap OR osl_tokens = $osl_cap, false);
