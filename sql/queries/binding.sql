-- What binds each service: memory (K), TPOT (L) or another target, and what is left of each
-- param version INTEGER?: the plan version; the newest unless given
SELECT
  candidate.service,
  candidate.candidate_id,
  candidate.binding AS replica_binding,
  candidate.k_bound,
  candidate.l_bound,
  candidate.zero_load_ttft_ms,
  candidate.zero_load_tpot_ms,
  candidate.goodput_rps_per_replica,
  planned.binding AS fleet_binding,
  planned.margin_ratio AS fleet_margin_ratio,
  one_down.meets_slo AS meets_slo_one_down,
  one_down.margin_ratio AS margin_ratio_one_down
FROM plan_candidate AS candidate
LEFT JOIN plan_capacity AS planned
  ON planned.plan_version = candidate.plan_version
  AND planned.service = candidate.service
  AND planned.candidate_id = candidate.candidate_id
  AND planned.scenario = 'fleet_planned'
LEFT JOIN plan_capacity AS one_down
  ON one_down.plan_version = candidate.plan_version
  AND one_down.service = candidate.service
  AND one_down.candidate_id = candidate.candidate_id
  AND one_down.scenario = 'fleet_one_down'
WHERE candidate.status = 'chosen' AND candidate.plan_version = coalesce($version, (SELECT max(plan_version) FROM plan))
ORDER BY candidate.service;
