-- The rows that refuse_delivered.sql moved, out of request.
DELETE FROM request
WHERE source_file = $source
    AND line IN (
        SELECT line FROM rejected_row WHERE source_file = $source AND starts_with(reason, $aside || ' of its own: ')
    );
