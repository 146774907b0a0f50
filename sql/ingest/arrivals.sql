-- Arrivals of one file ($file_number) in their order.
SELECT line, arrival_at FROM request_full WHERE file_number = $file_number ORDER BY arrival_at, line;
