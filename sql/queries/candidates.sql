-- Every configuration considered, by service, the cheapest that works first, and why the others were not taken
-- param version INTEGER?: the plan version; the newest unless given
-- param service VARCHAR?: one service; all unless given
SELECT
  service,
  candidate_id,
  status,
  reason,
  gpus,
  replicas,
  usd_per_hour,
  usd_per_million_output_tokens,
  goodput_rps_per_gpu,
  kv_budget_tokens,
  k_bound,
  l_bound,
  zero_load_ttft_ms,
  zero_load_tpot_ms,
  binding,
  label
FROM plan_candidate
WHERE plan_version = coalesce($version, (SELECT max(plan_version) FROM plan)) AND service = coalesce($service, service)
ORDER BY service, status NOT IN ('chosen', 'feasible'), usd_per_hour NULLS LAST, status, candidate_id;
