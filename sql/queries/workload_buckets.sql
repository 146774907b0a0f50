-- Joint input x output buckets, whose bounds follow the data: requests, lengths, cost and peak of each
-- param version INTEGER?: the plan version; the newest unless given
SELECT
  service,
  bucket,
  requests,
  share,
  isl_mean_tokens,
  osl_mean_tokens,
  input_share,
  output_share,
  cost_share,
  cost_spread,
  peak_rps
FROM workload_bucket
WHERE plan_version = coalesce($version, (SELECT max(plan_version) FROM plan))
ORDER BY service, cost_share DESC, bucket;
