-- The rows of one file ($source, numbered $file_number) that were refused as delivered before, out of request.
DELETE FROM request_full
WHERE file_number = $file_number
    AND line IN (
        SELECT line FROM rejected_row WHERE source_file = $source AND starts_with(reason, $aside || ' of its own: ')
    );
