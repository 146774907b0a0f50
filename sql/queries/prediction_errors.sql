-- Where the model was most wrong: predicted against observed, the worst first, saturated runs last
-- param version INTEGER?: the plan version; the newest unless given
SELECT
  error.service,
  error.bucket,
  error.metric,
  error.predicted_ms,
  error.observed_ms,
  error.error_ratio,
  error.utilisation,
  error.saturated,
  observation.gpu_id,
  observation.engine || ' ' || observation.engine_version AS engine,
  error.label,
  error.note,
  observation.source_file
FROM prediction_error AS error
LEFT JOIN observation USING (observation_id)
WHERE error.plan_version = coalesce($version, (SELECT max(plan_version) FROM plan))
ORDER BY error.saturated, abs(error.error_ratio) DESC NULLS LAST, error.service, error.bucket, error.metric;
