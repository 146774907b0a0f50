-- The capacity table: workload, engine, result and margin of every replay
-- param version INTEGER?: the plan version; the newest unless given
SELECT
  capacity.service,
  capacity.candidate_id,
  capacity.scenario,
  candidate.status,
  capacity.replicas,
  capacity.gpus,
  capacity.arrival_rps,
  capacity.requests_counted,
  candidate.engine || ' ' || candidate.engine_version AS engine,
  candidate.kv_budget_tokens,
  capacity.attainment,
  capacity.attainment_target,
  capacity.meets_slo,
  capacity.ttft_p99_ms,
  capacity.tpot_p99_ms,
  capacity.e2e_p99_ms,
  capacity.itl_p99_ms,
  capacity.queue_p99_ms,
  capacity.queue_limit,
  capacity.kv_usage_p99,
  capacity.preemptions,
  capacity.binding,
  capacity.margin_ratio,
  capacity.label
FROM plan_capacity AS capacity
JOIN plan_candidate AS candidate USING (plan_version, service, candidate_id)
WHERE capacity.plan_version = coalesce($version, (SELECT max(plan_version) FROM plan))
ORDER BY capacity.service, candidate.usd_per_hour NULLS LAST, capacity.candidate_id, capacity.scenario;
