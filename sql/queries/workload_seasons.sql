-- When a service is busy: each hour of the day and day of the week against its mean rate, UTC
-- param version INTEGER?: the plan version; the newest unless given
SELECT
  service,
  period,
  CASE period WHEN 'hour' THEN printf('%02d:00', slot) ELSE dayname(DATE '2024-01-01' + slot) END AS moment,
  factor,
  arrival_rps,
  requests,
  covered_h,
  label
FROM workload_season
WHERE plan_version = coalesce($version, (SELECT max(plan_version) FROM plan))
ORDER BY service, period, slot;
