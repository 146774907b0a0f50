-- Requests of one file ($file_number) cut at a length so many share that it must be a cap; NULL lengths mark nothing.
UPDATE request_full
SET censored = CASE WHEN isl_tokens = $isl_cap THEN 'input_cap' ELSE 'output_cap' END
WHERE file_number = $file_number
    AND replayable
    AND censored IS NULL
    AND coalesce(isl_tokens = $isl_cap OR osl_tokens = $osl_cap, false);
