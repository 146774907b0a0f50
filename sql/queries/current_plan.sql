-- The decision: what each service runs on, how much of it, what it costs and how far it is from its targets
-- param version INTEGER?: the plan version; the newest unless given
SELECT
  candidate.plan_version,
  candidate.service,
  candidate.candidate_id,
  candidate.replicas,
  candidate.gpus,
  candidate.usd_per_hour,
  candidate.usd_per_million_output_tokens,
  planned.attainment,
  planned.attainment_target,
  planned.meets_slo,
  planned.ttft_p99_ms,
  planned.tpot_p99_ms,
  planned.e2e_p99_ms,
  planned.binding,
  planned.margin_ratio
FROM plan_candidate AS candidate
LEFT JOIN plan_capacity AS planned
  ON planned.plan_version = candidate.plan_version
  AND planned.service = candidate.service
  AND planned.candidate_id = candidate.candidate_id
  AND planned.scenario = 'fleet_planned'
WHERE candidate.status = 'chosen' AND candidate.plan_version = coalesce($version, (SELECT max(plan_version) FROM plan))
ORDER BY candidate.service;
