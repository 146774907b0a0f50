-- Every plan version, newest first, with what it costs and how that changed
SELECT
  plan_version,
  created_at,
  services_meeting_slo,
  services,
  gpus_total,
  gpus_total - lag(gpus_total) OVER versions AS gpus_change,
  usd_per_month,
  usd_per_month - lag(usd_per_month) OVER versions AS usd_per_month_change,
  inputs_sha256 IS DISTINCT FROM lag(inputs_sha256) OVER versions AS inputs_changed,
  calibration_version,
  checks_failed,
  code_version,
  workbook
FROM plan
WINDOW versions AS (ORDER BY plan_version)
ORDER BY plan_version DESC;
