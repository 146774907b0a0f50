-- Arrivals of one file ($file_number) moved inside their grid step; written_at keeps what the source wrote. The moved
-- arrivals stand in moved_arrivals by line.
UPDATE request_full
SET written_at = request_full.arrival_at, arrival_at = moved.arrival_at
FROM moved_arrivals AS moved
WHERE request_full.file_number = $file_number AND request_full.line = moved.line;
