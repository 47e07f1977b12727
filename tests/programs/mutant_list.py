"""Mistakes that a test must find: a name, a file, a text that it has exactly once, and what stands there instead."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple


class Mutant(NamedTuple):
    """One mistake."""

    name: str
    file: str
    old: str
    new: str
    first: str = ""
    """The check that finds it, where that is not the first one."""

    def applied(self, project: Path) -> str:
        """The file's text with the mistake in it."""
        text = (project / self.file).read_text()
        if (n := text.count(self.old)) != 1:
            raise ValueError(f"{self.name}: its text occurs {n} times in {self.file}, not once")
        return text.replace(self.old, self.new)


FACTORS = "macros/formulas/factors.sql"
REPLAY = "macros/formulas/replay.sql"
ATTRIBUTION = "models/marts/fct_score_attribution.sql"
CHANGES = "models/marts/fct_score_changes.sql"
CLEAN_SCORES = "macros/cleaning/clean_scores.sql"
LONG_TEXT = "macros/cleaning/long_text.sql"
RANGES = "macros/windows/window_ranges.sql"
VERDICTS = "models/intermediate/traces/int_trace_verdicts.sql"
REPLAYS = "models/intermediate/traces/int_replays.sql"
DEFERRALS = "models/intermediate/traces/int_deferral_verdicts.sql"
FRAGILITY = "models/intermediate/traces/int_fragility_events.sql"
NAMES = "models/intermediate/traces/int_agent_names.sql"
HOURS = "models/intermediate/periods/int_agent_hours.sql"
PERIODS = "models/intermediate/periods/int_agent_periods.sql"
TOTALS = "models/intermediate/periods/int_agent_totals.sql"
SPINE = "models/intermediate/windows/int_agent_spine.sql"
SUMS = "models/intermediate/windows/int_window_sums.sql"
EVENTS = "models/intermediate/windows/int_window_events.sql"
CORE_IDENTITY = "models/intermediate/factors/int_core_identity.sql"
INTEGRITY = "models/intermediate/factors/int_integrity.sql"
AWARENESS = "models/intermediate/factors/int_incompleteness_awareness.sql"
RESILIENCE = "models/intermediate/factors/int_resilience_inputs.sql"
SCORES = "models/intermediate/factors/int_capacity_scores.sql"
ALERTS = "models/marts/fct_capacity_alerts.sql"
QUALITY = "models/marts/fct_data_quality.sql"
STAGED_TRACES = "models/staging/cirislens/stg_cirislens__covenant_traces.sql"
STAGED_DEFERRALS = "models/staging/cirislens/stg_cirislens__wbd_deferrals.sql"
DRIFT = "python/ciris_scoring/statistics/resilience.py"
COHERENCE = "python/ciris_scoring/statistics/coherence.py"
LOSSES = "python/ciris_scoring/statistics/attribution.py"
BEHAVIOUR = "python/ciris_scoring/statistics/behaviour.py"
EPISODES_COMPARED = "python/ciris_scoring/statistics/episodes.py"
STEADY = "python/ciris_scoring/statistics/steady.py"
WORSE = "models/intermediate/alerts/int_worse_events.sql"
SIGNS = "macros/formulas/record_signs.sql"
JUDGED_SIGNS = "python/ciris_scoring/statistics/signs.py"
ALIKE = "python/ciris_scoring/statistics/alike.py"
READING = "python/ciris_scoring/statistics/reading.py"
LATE = "models/intermediate/quality/int_late_arrivals.sql"
RUN_LOG = "python/ciris_scoring/job/run_log.py"
PUBLICATIONS = "models/publication/int_runs.sql"
UNIT_TESTS, LATE_AND_LOGGED, SIGNS_JUDGED = "unit tests", "late and logged", "signs judged"

MUTANTS = [
    # scoring.md §1: time
    Mutant(
        "the trace at T counts",
        "macros/windows/window_sum.sql",
        "totals.period_start < {{ moment }}",
        "totals.period_start <= {{ moment }}",
    ),
    Mutant(
        "an agent has a row a period longer",
        SUMS,
        "spine.last_traced_period_start >= spine.as_of",
        "spine.last_traced_period_start + interval '1 day' >= spine.as_of",
    ),
    Mutant(
        "an agent has a row a period less",
        SUMS,
        "spine.last_traced_period_start >= spine.as_of",
        "spine.last_traced_period_start > spine.as_of",
    ),
    Mutant(
        "the baseline begins with the window",
        SUMS,
        "{{ window_sum(name, 'at_start', 'at_baseline_start') }}",
        "{{ window_sum(name, 'at_end', 'at_baseline_start') }}",
    ),
    Mutant(
        "the baseline is as long as the window and itself",
        SUMS,
        "days('windows.window_days + windows.baseline_days')",
        "days('windows.baseline_days')",
    ),
    Mutant(
        "a name holds from its trace on, at T too",
        SUMS,
        "window_sums.as_of > agent_names.named_from",
        "window_sums.as_of >= agent_names.named_from",
    ),
    Mutant(
        "a name ends a moment early",
        SUMS,
        "window_sums.as_of <= agent_names.named_until",
        "window_sums.as_of < agent_names.named_until",
    ),
    Mutant(
        "an hour is a day",
        "macros/time/periods.sql",
        "date_bin(interval '1 hour', {{ moment }}",
        "date_bin(interval '1 day', {{ moment }}",
    ),
    # scoring.md §2: cleaning and order
    Mutant(
        "score 1 is out of range",
        CLEAN_SCORES,
        "{{ column }}::numeric between 0 and 1 then",
        "{{ column }}::numeric >= 0 and {{ column }}::numeric < 1 then",
    ),
    Mutant(
        "negative k_eff is a number",
        CLEAN_SCORES,
        "{{ column }}::numeric >= 0 and {{ column }}::numeric < 'Infinity'",
        "{{ column }}::numeric < 'Infinity'",
    ),
    Mutant(
        "an infinite k_eff is a number",
        CLEAN_SCORES,
        "{{ column }}::numeric >= 0 and {{ column }}::numeric < 'Infinity'",
        "{{ column }}::numeric >= 0 and {{ column }}::numeric < 'NaN'",
    ),
    Mutant(
        "white space is text", "macros/cleaning/blank_to_null.sql", "{{ white_space() }}) <> ''", "'') <> ''"
    ),
    Mutant(
        "an action keeps its prefix",
        "macros/cleaning/clean_action.sql",
        "'^HANDLERACTIONTYPE[.]'",
        "'^HANDLERACTION[.]'",
    ),
    Mutant(
        "512 bytes are too long",
        LONG_TEXT,
        "case when octet_length({{ column }}) <= {{ longest_text() }} then {{ blank_to_null(column) }} end",
        "case when octet_length({{ column }}) < {{ longest_text() }} then {{ blank_to_null(column) }} end",
    ),
    Mutant("513 bytes are an id", LONG_TEXT, "macro longest_text() -%} 512", "macro longest_text() -%} 513"),
    Mutant(
        "the trace at traces_from takes no part",
        VERDICTS,
        "and traced_at >= {{ traces_from() }}",
        "and traced_at > {{ traces_from() }}",
    ),
    Mutant(
        "a trace sent again counts twice",
        VERDICTS,
        "not is_duplicate as is_counted",
        "true as is_counted",
    ),
    Mutant(
        "another number is the same delivery",
        VERDICTS,
        '{{ of_agent() }}, delivery_hash, trace_id collate "C", audit_sequence_number',
        '{{ of_agent() }}, trace_id collate "C"',
    ),
    Mutant(
        "traces without an id are one",
        VERDICTS,
        "identified.trace_id is not null and (",
        "true and (",
    ),
    Mutant(
        "an increment knows no older deliveries",
        VERDICTS,
        "earlier.delivery_hash = identified.delivery_hash",
        "earlier.delivery_hash <> identified.delivery_hash",
        "cases by hour",
    ),
    Mutant(
        "ties go by trace_id alone",
        "macros/windows/agent_order.sql",
        "{{ prefix }}period_start, {{ prefix }}traced_at, {{ prefix }}audit_sequence_number,",
        "{{ prefix }}period_start, {{ prefix }}traced_at,",
    ),
    Mutant(
        "trace_ids are ordered by language",
        "macros/windows/agent_order.sql",
        '{{ prefix }}trace_id collate "C"',
        'lower({{ prefix }}trace_id) collate "C"',
    ),
    Mutant(
        "the newest first is another order",
        "macros/windows/newest_first.sql",
        "{{ prefix }}audit_sequence_number desc nulls first",
        "{{ prefix }}audit_sequence_number asc nulls first",
        "cases by hour",
    ),
    Mutant(
        "names of ties in another order",
        "macros/windows/newest_first.sql",
        "{{ prefix }}traced_at, {{ prefix }}audit_sequence_number, {{ prefix }}trace_id",
        "{{ prefix }}traced_at, {{ prefix }}trace_id",
    ),
    # scoring.md §3: C
    Mutant(
        "C falls by 5 per override",
        CORE_IDENTITY,
        "* exp(-{{ scoring_parameter('mu_c') }}",
        "* exp(-{{ scoring_parameter('lambda_c') }}",
    ),
    Mutant(
        "a first name is a change",
        VERDICTS,
        "is_counted and coalesce(agent_name <> previous_agent_name, false) as is_identity_change",
        "is_counted and agent_name is distinct from previous_agent_name as is_identity_change",
    ),
    Mutant(
        "a name is forgotten over a null",
        VERDICTS,
        "max(case when is_counted and agent_name is not null then agent_position end)",
        "max(case when is_counted then agent_position end)",
    ),
    Mutant(
        "the name carried in is forgotten",
        VERDICTS,
        "nth_value(agent_name, name_position::integer) over so_far, carried_agent_name",
        "nth_value(agent_name, name_position::integer) over so_far, null",
        "cases by hour",
    ),
    Mutant(
        "null is overridden",
        VERDICTS,
        "coalesce(action_was_overridden, false) as is_overridden",
        "coalesce(action_was_overridden, true) as is_overridden",
    ),
    Mutant(
        "null has failed",
        VERDICTS,
        "conscience_passed is false as is_conscience_failed",
        "conscience_passed is not true as is_conscience_failed",
    ),
    # scoring.md §4: I_int
    Mutant(
        "I_int is the least of its parts",
        INTEGRITY,
        "i_chain * i_coverage * i_replay",
        "least(i_chain, i_coverage, i_replay)",
    ),
    Mutant(
        "a key holds at its revocation",
        "macros/formulas/registered_key.sql",
        "coalesce({{ registered_until }} > {{ moment }}, false)",
        "coalesce({{ registered_until }} >= {{ moment }}, false)",
    ),
    Mutant(
        "a key is as good as its best entry",
        "macros/formulas/registered_key.sql",
        "least(min(revoked_at), min(expires_at))",
        "least(max(revoked_at), max(expires_at))",
    ),
    Mutant(
        "a key holds until it is revoked and has expired",
        "macros/formulas/registered_key.sql",
        "least(min(revoked_at), min(expires_at))",
        "greatest(min(revoked_at), min(expires_at))",
    ),
    Mutant("a blank signature is one", VERDICTS, "signature is not null as is_signed", "true as is_signed"),
    Mutant(
        "a link needs no hash",
        VERDICTS,
        "when not has_entry_hash or audit_sequence_number is null then false",
        "when audit_sequence_number is null then false",
    ),
    Mutant(
        "the first number has no link",
        VERDICTS,
        "when previous_audit_sequence_number is null then true",
        "when previous_audit_sequence_number is null then false",
    ),
    Mutant(
        "a jump is a link",
        VERDICTS,
        "then audit_sequence_number - 1 = previous_audit_sequence_number",
        "then audit_sequence_number - 1 >= previous_audit_sequence_number",
    ),
    Mutant(
        "the next number is a gap",
        VERDICTS,
        "then audit_sequence_number - 1 > previous_audit_sequence_number",
        "then audit_sequence_number - 1 >= previous_audit_sequence_number",
    ),
    Mutant(
        "a number is held against the trace before it, numbered or not",
        VERDICTS,
        "case when is_counted and audit_sequence_number is not null then agent_position end",
        "case when is_counted then agent_position end",
    ),
    Mutant(
        "the number carried in is forgotten",
        VERDICTS,
        "number_position::integer) over so_far, carried_audit_sequence_number",
        "number_position::integer) over so_far, null",
        "cases by hour",
    ),
    Mutant(
        "the key is a required field, the thought is not",
        "macros/cleaning/trace_columns.sql",
        "return(['thought_id', 'csdma_plausibility_score', 'dsdma_domain_alignment',",
        "return(['signature_key_id', 'csdma_plausibility_score', 'dsdma_domain_alignment',",
    ),
    Mutant(
        "30 sampled traces are too few",
        INTEGRITY,
        "' and n_replay_sampled >= '",
        "' and n_replay_sampled > '",
    ),
    Mutant(
        "a 31st trace is sampled",
        VERDICTS,
        "and sample_rank <= {{ scoring_parameter('replay_sample_per_period') }}",
        "and sample_rank <= {{ scoring_parameter('replay_sample_per_period') }} + 1",
    ),
    Mutant(
        "the sample is the first traces",
        VERDICTS,
        "order by sampling_hash, audit_sequence_number, traced_at",
        "order by traced_at, audit_sequence_number",
    ),
    Mutant(
        "ties of the sample go by time",
        VERDICTS,
        "order by sampling_hash, audit_sequence_number, traced_at",
        "order by sampling_hash, traced_at",
    ),
    Mutant(
        "each sampled trace weighs the same",
        PERIODS,
        "'trace_sums.n_traces', 'coalesce(replay_sums.n_replay_succeeded, 0)', 'trace_sums.n_replay_sampled'",
        "'trace_sums.n_replay_sampled', 'coalesce(replay_sums.n_replay_succeeded, 0)', 'trace_sums.n_replay_sampled'",
    ),
    Mutant(
        "replay: entropy fails at its threshold",
        REPLAY,
        "'json_entropy_score', '<=', 'json_entropy_threshold'",
        "'json_entropy_score', '<', 'json_entropy_threshold'",
    ),
    Mutant(
        "replay: coherence fails at its threshold",
        REPLAY,
        "'json_coherence_score', '>=', 'json_coherence_threshold'",
        "'json_coherence_score', '>', 'json_coherence_threshold'",
    ),
    Mutant(
        "replay: a wrong type did not run",
        REPLAY,
        "is_json_absent(threshold) }}) then false",
        "is_json_absent(threshold) }}) then null",
    ),
    Mutant(
        "replay: guardrails do not matter",
        REPLAY,
        "= 'boolean' then {{ guardrail }}::boolean else false end",
        "= 'boolean' then false else false end",
    ),
    Mutant(
        "replay: a verdict alone is enough",
        REPLAY,
        "= 'boolean' then {{ verdict }}::boolean else true end and",
        "= 'boolean' then true else true end and",
    ),
    Mutant(
        "replay: guardrails alone are a verdict",
        REPLAY,
        "        {{ is_json_absent(verdict) }}{% if not loop.last %} and{% endif %}",
        "        false{% if not loop.last %} and{% endif %}",
    ),
    Mutant(
        "replay: plausibility to 3 decimals",
        REPLAY,
        "'json_csdma_plausibility_score', 2)",
        "'json_csdma_plausibility_score', 3)",
    ),
    Mutant(
        "replay: alignment to 1 decimal",
        REPLAY,
        "'json_dsdma_domain_alignment', 2)",
        "'json_dsdma_domain_alignment', 1)",
    ),
    Mutant("replay: entropy to 3 decimals", REPLAY, "'json_entropy_level', 4)", "'json_entropy_level', 3)"),
    Mutant(
        "replay: coherence to 5 decimals", REPLAY, "'json_coherence_level', 4)", "'json_coherence_level', 5)"
    ),
    Mutant(
        "replay: a text in place of a number agrees",
        REPLAY,
        "replay_number('audit_sequence_number', 'json_audit_sequence_number')",
        "replay_number('audit_sequence_number', 'json_audit_sequence_number', 0)",
    ),
    Mutant("replay: any hash agrees", REPLAY, "then {{ column }} = {{ value }} #>> '{}'", "then true"),
    Mutant(
        "replay: the second alternative comes first",
        REPLAY,
        "coalesce(nullif({{ value }}, jsonb 'null'), {{ other }})",
        "coalesce(nullif({{ other }}, jsonb 'null'), {{ value }})",
    ),
    Mutant(
        "replay: a null is a value",
        REPLAY,
        "coalesce(nullif({{ value }}, jsonb 'null'), {{ other }})",
        "coalesce({{ value }}, {{ other }})",
    ),
    Mutant(
        "replay: the thought's start may be anything",
        REPLAYS,
        "coalesce(jsonb_typeof(thought_start) = 'object', false)",
        "coalesce(jsonb_typeof(thought_start) <> 'null', false)",
    ),
    Mutant("replay: nothing has to run", REPLAYS, "and true = any(identified.comparisons)", "and true"),
    Mutant(
        "replay: one comparison that holds is enough",
        REPLAYS,
        "and (false = any(identified.comparisons)) is not true",
        "and true",
    ),
    # scoring.md §5: R
    Mutant(
        "drift the wrong way round",
        DRIFT,
        "kl_divergence(smoothed(recent, pseudo_count), smoothed(baseline, pseudo_count))",
        "kl_divergence(smoothed(baseline, pseudo_count), smoothed(recent, pseudo_count))",
    ),
    Mutant("drift's bias counts each bin", DRIFT, "bias = (bins_used - 1) / 2", "bias = bins_used / 2"),
    Mutant("drift may be negative", DRIFT, "corrected = np.maximum(0.0, kl - bias)", "corrected = kl - bias"),
    Mutant(
        "drift needs 31 values",
        DRIFT,
        "baseline.sum(axis=-1)) >= min_sample",
        "baseline.sum(axis=-1)) > min_sample",
    ),
    Mutant(
        "drift needs 30 values on one side",
        DRIFT,
        "measurable = np.minimum(recent.sum",
        "measurable = np.maximum(recent.sum",
    ),
    Mutant("drift is the mean over three metrics", DRIFT, "/ np.maximum(n_measured, 1)", "/ 3"),
    Mutant(
        "drift's pseudo-count is 1",
        DRIFT,
        "dtype=np.float64) + pseudo_count",
        "dtype=np.float64) + 2 * pseudo_count",
    ),
    Mutant(
        "R forgets relapses",
        DRIFT,
        "(1 / (1 + mttr_hours / mttr_scale_hours)) * (1 - rho)",
        "(1 / (1 + mttr_hours / mttr_scale_hours))",
    ),
    Mutant(
        "R falls with the square of MTTR",
        DRIFT,
        "(1 / (1 + mttr_hours / mttr_scale_hours))",
        "(1 / (1 + mttr_hours / mttr_scale_hours) ** 2)",
    ),
    Mutant(
        "a score's bin is the nearest",
        "macros/formulas/score_bin.sql",
        "least(floor({{ score }} * 10), 9)",
        "least(round({{ score }} * 10), 9)",
    ),
    Mutant(
        "bins are closed above",
        "macros/formulas/score_bin.sql",
        "least(floor({{ score }} * 10), 9)",
        "greatest(ceil({{ score }} * 10) - 1, 0)",
    ),
    Mutant(
        "an episode may start at each fragile trace",
        VERDICTS,
        "idma_fragility_flag is true and previous_fragility_flag is not true",
        "idma_fragility_flag is true and true",
    ),
    Mutant(
        "an episode does not start history",
        VERDICTS,
        "idma_fragility_flag is true and previous_fragility_flag is not true",
        "idma_fragility_flag is true and previous_fragility_flag is false",
    ),
    Mutant(
        "a missing flag ends an episode",
        VERDICTS,
        "case when is_counted and idma_fragility_flag is not null then agent_position end",
        "case when is_counted then agent_position end",
    ),
    Mutant(
        "the flag carried in is forgotten",
        VERDICTS,
        "flag_position::integer) over so_far, carried_fragility_flag",
        "flag_position::integer) over so_far, null",
        "cases by hour",
    ),
    Mutant(
        "the mode is that of the recovery",
        FRAGILITY,
        "else coalesce(paired.previous_failure_mode, carried_in.failure_mode)",
        "else coalesce(paired.failure_mode, carried_in.failure_mode)",
    ),
    Mutant(
        "no mode is none",
        FRAGILITY,
        "coalesce(idma_phase, 'unknown') as failure_mode",
        "coalesce(idma_phase, trace_id) as failure_mode",
    ),
    Mutant(
        "the open episode is not one of those that are averaged",
        RESILIENCE,
        "'n_recoveries + n_open_episodes'",
        "'n_recoveries'",
    ),
    Mutant(
        "an episode is open from its period on",
        EVENTS,
        "        {{ period_start('detected_at') }} + {{ period_length() }} as first_as_of,\n        period_start",
        "        {{ period_start('detected_at') }} as first_as_of,\n        period_start",
        "reference",
    ),
    Mutant(
        "an episode is open at its recovery's end of period",
        EVENTS,
        "period_start + {{ period_length() }} as end_as_of",
        "period_start + {{ period_length() }} * 2 as end_as_of",
    ),
    Mutant(
        "relapses count the last of each mode",
        RESILIENCE,
        "'(n_recoveries - n_modes + n_modes_open)'",
        "'(n_recoveries - n_modes_open)'",
    ),
    Mutant(
        "an open episode is no relapse",
        RESILIENCE,
        "'(n_recoveries - n_modes + n_modes_open)'",
        "'(n_recoveries - n_modes)'",
    ),
    Mutant(
        "any open episode is a relapse",
        EVENTS,
        "and modes.failure_mode = episodes.failure_mode",
        "and true",
    ),
    Mutant(
        "a mode is remembered a period longer than the window",
        EVENTS,
        "least(recovered.period_start + {{ days('windows.window_days') }},",
        "least(recovered.period_start + {{ days('windows.window_days') }} + {{ period_length() }},",
    ),
    # scoring.md §6: I_inc
    Mutant(
        "gaps of confidence cancel",
        AWARENESS,
        "abs(sums.excess_confidence[{{ bin }}])",
        "(sums.excess_confidence[{{ bin }}])",
    ),
    Mutant(
        "I_inc forgets what was unsafe",
        FACTORS,
        "((1 - {{ ece }}) * {{ q_deferral }} * (1 - {{ u_unsafe }}))",
        "((1 - {{ ece }}) * {{ q_deferral }})",
    ),
    Mutant(
        "confidence without an outcome is judged",
        PERIODS,
        "case when action_success is not null then {{ score_bin('csdma_plausibility_score') }} + 1 end",
        "{{ score_bin('csdma_plausibility_score') }} + 1",
    ),
    Mutant(
        "an entropy of 0.5 is unsafe",
        "macros/formulas/is_unsafe.sql",
        "{{ entropy_level }} > {{",
        "{{ entropy_level }} >= {{",
    ),
    Mutant(
        "null is unsafe",
        "macros/formulas/is_unsafe.sql",
        "and not {{ action_success }}, false)",
        "and {{ action_success }} is not true, false)",
    ),
    Mutant(
        "a summary does not matter",
        DEFERRALS,
        "then 1 else 0.5 end",
        "then 1 else 1 end",
    ),
    Mutant(
        "a blank summary is one",
        STAGED_DEFERRALS,
        "{{ blank_to_null('resolution_summary::text') }} is not null",
        "resolution_summary is not null",
    ),
    Mutant(
        "a status is compared as it is written",
        STAGED_DEFERRALS,
        "upper(btrim(left(status::text, 1000000), {{ white_space() }}))",
        "left(status::text, 1000000)",
    ),
    Mutant(
        "what is not judged is wrong",
        DEFERRALS,
        "coalesce(outcomes.is_judged, false) as is_judged",
        "outcomes.status is null or outcomes.is_judged as is_judged",
    ),
    Mutant(
        "a deferral counts before it was resolved",
        DEFERRALS,
        "greatest(deferrals.created_at, deferrals.resolved_at) as judged_from",
        "deferrals.created_at as judged_from",
    ),
    Mutant(
        "an agent is a candidate at its first trace",
        DEFERRALS,
        "and deferrals.created_at > agents.first_traced_at",
        "and deferrals.created_at >= agents.first_traced_at",
    ),
    Mutant(
        "a prefix counts before its agent began",
        DEFERRALS,
        "and prefixes.created_at > agents.first_traced_at",
        "and true",
    ),
    Mutant(
        "a prefix of 8 characters is too short", DEFERRALS, "where hash_length >= 8", "where hash_length > 8"
    ),
    Mutant(
        "a prefix of 7 characters is enough", DEFERRALS, "where hash_length >= 8", "where hash_length >= 7"
    ),
    Mutant("the shortest prefix", DEFERRALS, "prefixes.hash_length desc", "prefixes.hash_length asc"),
    Mutant(
        "a name counts at its first trace",
        DEFERRALS,
        "and deferrals.created_at > borne_names.first_borne_at",
        "and deferrals.created_at >= borne_names.first_borne_at",
    ),
    Mutant(
        "a name that two bore is the first one's", DEFERRALS, "having count(*) = 1", "having count(*) >= 1"
    ),
    Mutant(
        "a name before a hash",
        DEFERRALS,
        "coalesce(by_hash.agent_id_hash, by_sha256.agent_id_hash, by_name.agent_id_hash) as agent_id_hash",
        "coalesce(by_name.agent_id_hash, by_hash.agent_id_hash, by_sha256.agent_id_hash) as agent_id_hash",
    ),
    Mutant(
        "a deferral counts a period longer",
        EVENTS,
        "deferrals.created_in + {{ days('ranges.days_from') }} + {{ period_length() }} as end_as_of",
        "deferrals.created_in + {{ days('ranges.days_from') }} + {{ period_length() }} * 2 as end_as_of",
    ),
    Mutant(
        "a deferral counts in the period of its outcome",
        EVENTS,
        "greatest(deferrals.judged_in, ",
        "greatest(deferrals.judged_in - {{ period_length() }}, ",
    ),
    # scoring.md §7: S
    Mutant(
        "a signal needs no signature",
        VERDICTS,
        "coherence_passed is true and is_signature_verified as is_coherent_signal",
        "coherence_passed is true as is_coherent_signal",
    ),
    Mutant(
        "a check that was not run is a signal",
        VERDICTS,
        "coherence_passed is not null as is_signal",
        "true as is_signal",
    ),
    Mutant(
        "a difference of the tolerance is too much",
        HOURS,
        ", 12) <= {{",
        ", 12) < {{",
    ),
    Mutant(
        "others are counted with oneself",
        HOURS,
        "(fleet_hours.sum_of_means - hours.mean_coherence_level) / nullif(fleet_hours.n_agents - 1, 0)",
        "fleet_hours.sum_of_means / nullif(fleet_hours.n_agents, 0)",
    ),
    Mutant(
        "corroborated signals weigh as others",
        COHERENCE,
        "corroborated, uncorroborated = parameters.w_corroborated,",
        "corroborated, uncorroborated = parameters.w_uncorroborated,",
    ),
    Mutant(
        "coherence decays by period, whatever its length",
        COHERENCE,
        "keep = 1 - parameters.decay_per_day / periods_per_day",
        "keep = 1 - parameters.decay_per_day",
        "cases by hour",
    ),
    Mutant(
        "memory reaches a period too far",
        COHERENCE,
        "memory = window.coherence_days * periods_per_day",
        "memory = window.coherence_days * periods_per_day + 1",
    ),
    Mutant(
        "S counts the end at which the window begins",
        COHERENCE,
        "decayed_sum(values[:, 1:], length)",
        "decayed_sum(values[:, 1:], length + 1)",
    ),
    Mutant(
        "S is the last ratio",
        COHERENCE,
        "share = over_ends(of_sigma_max(sigma)) / counted",
        "share = of_sigma_max(sigma)[rows.agent, rows.as_of]",
    ),
    Mutant(
        "ends without a signal count as 0",
        COHERENCE,
        "n_ends = over_ends(measured.astype(np.float64))",
        "n_ends = over_ends(np.ones(measured.shape))",
    ),
    # scoring.md §8: composites, status and the rest
    Mutant(
        "the floor does not reach the score",
        FACTORS,
        "({{ c }} * {{ floored_integrity(i_int) }} * {{ r }}",
        "({{ c }} * {{ i_int }} * {{ r }}",
        "reference",
    ),
    Mutant(
        "weights of C and S are swapped",
        FACTORS,
        "power({{ c }}, {{ scoring_parameter('weight_c') }}",
        "power({{ c }}, {{ scoring_parameter('weight_s') }}",
        "reference",
    ),
    Mutant(
        "fragility forgets epsilon",
        FACTORS,
        "(1 / ({{ scoring_parameter('fragility_epsilon') }}::double precision + {{ capacity_score }}))",
        "(1 / (0.002 + {{ capacity_score }}))",
    ),
    Mutant(
        "ten traces are insufficient",
        FACTORS,
        "when {{ n_traces }} < 10 then",
        "when {{ n_traces }} <= 10 then",
    ),
    Mutant(
        "a hundred traces are medium",
        FACTORS,
        "when {{ n_traces }} < 100 then",
        "when {{ n_traces }} <= 100 then",
    ),
    Mutant(
        "of equal factors the last is the weakest",
        FACTORS,
        "    when {{ i_int }} then 'I_int'\n    when {{ r }} then 'R'\n    when {{ i_inc }} then 'I_inc'\n    else 'S'",
        "    when {{ s }} then 'S'\n    when {{ i_inc }} then 'I_inc'\n    when {{ r }} then 'R'\n    else 'I_int'",
    ),
    Mutant(
        "30 traces are too few for a score",
        SCORES,
        "n_traces >= {{ scoring_parameter('min_traces') }}",
        "n_traces > {{ scoring_parameter('min_traces') }}",
    ),
    Mutant(
        "a score is provisional at the end of the warm-up",
        SCORES,
        "when bounded.first_traced_at > bounded.window_start",
        "when bounded.first_traced_at >= bounded.window_start",
    ),
    Mutant(
        "a category begins above its lower bound",
        "macros/formulas/intervals.sql",
        "{{ score }} >= {{ categories }}.lower_bound",
        "{{ score }} > {{ categories }}.lower_bound",
        "unit tests",
    ),
    Mutant(
        "what is unmeasured is not named",
        SCORES,
        "case when not incompleteness_awareness.is_ece_measured then 'ece' end,",
        "case when incompleteness_awareness.is_ece_measured is null then 'ece' end,",
    ),
    Mutant(
        "a future trace is not counted",
        QUALITY,
        "(traced_at >= (select run.latest_as_of",
        "(traced_at > (select run.latest_as_of",
    ),
    Mutant(
        "the steady score is the week's",
        SCORES,
        "'c_score', 'i_int_score', 'r_score_steady', 'i_inc_score_steady', 's_score'",
        "'c_score', 'i_int_score', 'r_score', 'i_inc_score_steady', 's_score'",
    ),
    Mutant(
        "steady R takes every window for one with an episode",
        STEADY,
        "r_score=(1 - p) * norm(kept) + p * norm(",
        "r_score=0 * norm(kept) + 1 * norm(",
    ),
    Mutant(
        "steady days shorter than the window are not lengthened",
        RANGES,
        "greatest(windows.window_days, {{ steady_days }})",
        "{{ steady_days }}",
        "reference",
    ),
    Mutant(
        "steady episodes of a shorter time than the window",
        SUMS,
        "'least(scored_windows.window_start, scored_windows.as_of - ' ~ days(scoring_parameter('steady_days')) ~ ')'",
        "'scored_windows.as_of - ' ~ days(scoring_parameter('steady_days'))",
        "reference",
    ),
    Mutant(
        "steady deferrals count in every window",
        FACTORS,
        "(select p.none + (1 - p.none) * {{ q_deferral }}",
        "(select 0 * p.none + {{ q_deferral }}",
    ),
    Mutant(
        "steady days shorter than the window are not lengthened for episodes",
        STEADY,
        "days = max(parameters.steady_days, window.window_days)",
        "days = parameters.steady_days",
    ),
    # scoring.md §8 and certainty.md §4: alerts
    Mutant(
        "low_capacity is never critical",
        ALERTS,
        "                then 'critical'\n            else 'warning'",
        "                then 'warning'\n            else 'warning'",
    ),
    Mutant(
        "repeated numbers break no chain",
        ALERTS,
        "where chain_gaps + chain_rewinds + chain_duplicates > 0",
        "where chain_gaps + chain_rewinds > 0",
    ),
    Mutant(
        "silent after 31 traces",
        ALERTS,
        "where activity.n_before >= {{ scoring_parameter('silent_min_traces') }}",
        "where activity.n_before > {{ scoring_parameter('silent_min_traces') }}",
    ),
    Mutant(
        "silent looks at the window to T",
        ALERTS,
        "silent_as_ofs.as_of - {{ days(scoring_parameter('silent_days')) }} - silent_as_ofs.window_length",
        "silent_as_ofs.as_of - silent_as_ofs.window_length",
    ),
    Mutant(
        "falling is raised against a provisional score",
        ALERTS,
        "'earlier.window_days + ' ~ scoring_parameter('warm_up_days')",
        "'earlier.window_days - ' ~ scoring_parameter('warm_up_days')",
    ),
    Mutant(
        "a part that hardly moved may raise falling alone",
        ALERTS,
        "loss_change > 0.02 and loss_change >=",
        "loss_change > 0 and loss_change >=",
    ),
    Mutant(
        "falling needs no loss",
        ALERTS,
        "        and kept_before - kept_now >= ({{",
        "        and kept_before - kept_now >= 0 * ({{",
    ),
    Mutant("falling needs all parts together", ALERTS, "(together or alone)", "(together)"),
    Mutant("falling needs one part alone", ALERTS, "(together or alone)", "(alone)"),
    Mutant(
        "s_score's limits taken by the wrong side in falling",
        BEHAVIOUR,
        "worst, best = (low, high) if part in GOOD_SHARES else (high, low)",
        "worst, best = (low, high) if part in GOOD_SHARES[:3] else (high, low)",
    ),
    Mutant(
        "falling looks at the chance of now alone",
        ALERTS,
        "parts.worse_sd ^ 2 + parts.better_sd ^ 2 as variance",
        "parts.better_sd ^ 2 as variance",
    ),
    Mutant(
        "falling counts what is unmeasured",
        BEHAVIOUR,
        "np.isnan(limits.design_effect[..., at])",
        "np.isnan(limits.component[..., at])",
    ),
    Mutant(
        "days before the window begin a window too late",
        RANGES,
        "('before', windows.window_days + {{ steady_days }}, windows.window_days)",
        "('before', {{ steady_days }}, windows.window_days)",
    ),
    Mutant(
        "episodes before the window begin a window too late",
        SUMS,
        "'scored_windows.window_start - ' ~ days(scoring_parameter('steady_days'))",
        "'scored_windows.as_of - ' ~ days(scoring_parameter('steady_days'))",
    ),
    Mutant(
        "days before the window include it",
        RANGES,
        "('before', windows.window_days + {{ steady_days }}, windows.window_days)",
        "('before', windows.window_days + {{ steady_days }}, 0)",
    ),
    Mutant(
        "episodes are always longer",
        WORSE,
        "comparisons.episode_z > {{ scoring_parameter('episode_z') }} as is_longer",
        "comparisons.episode_z > -1000 as is_longer",
    ),
    Mutant(
        "two bad deferrals are no chance",
        EPISODES_COMPARED,
        "(share - highest > z * spread)",
        "(share - highest > 0.1 * z * spread)",
    ),
    # certainty.md §1 and 2: attribution
    Mutant(
        "points are shared equally",
        ATTRIBUTION,
        "else coalesce(parts.loss / nullif(sum(parts.loss) over (), 0), 0)",
        "else 1.0 / 13",
    ),
    Mutant(
        "the ceiling costs nothing",
        LOSSES,
        "np.log1p(np.exp(-k * (1 - x0)))",
        "0 * np.log1p(np.exp(-k * (1 - x0)))",
    ),
    Mutant(
        "slow recovery costs twice",
        LOSSES,
        "np.log1p(score.mttr_hours / parameters.mttr_scale_hours)",
        "2 * np.log1p(score.mttr_hours / parameters.mttr_scale_hours)",
    ),
    Mutant(
        "the floor caps nothing",
        LOSSES,
        "if parameters.integrity_floor > 0:",
        "if parameters.integrity_floor > 2:",
        "reference",
    ),
    Mutant(
        "infinite parts do not share alone",
        ATTRIBUTION,
        "(parts.loss is null)::integer::double precision\n",
        "1.0 / 13 * count(*) filter (where parts.loss is null) over ()\n",
    ),
    Mutant(
        "points of a change are its losses",
        CHANGES,
        "then (0 - parts.loss_change) * moved.points_per_loss",
        "then (0 - parts.loss_change)",
    ),
    Mutant(
        "a gain is negative",
        CHANGES,
        "then (0 - parts.loss_change) * moved.points_per_loss",
        "then parts.loss_change * moved.points_per_loss",
    ),
    Mutant(
        "turned parts share their own changes",
        CHANGES,
        "/ count(*) filter (where parts.has_turned) over ()",
        "",
    ),
    Mutant(
        "the score before is a period earlier",
        "macros/formulas/attribution.sql",
        "case when compared_with = 'window' then {{ days(window_days) }} else {{ period_length() }} end",
        "case when compared_with = 'window' then {{ days('7') }} else {{ period_length() }} end",
    ),
    # scoring.md §9: what an increment carries on
    Mutant(
        "totals begin anew",
        TOTALS,
        "{{ 'coalesce(totals_before.' ~ counter ~ ', 0) + ' if is_incremental() }}",
        "",
        "cases by hour",
    ),
    Mutant(
        "an open episode is not carried in",
        FRAGILITY,
        "else coalesce(paired.previous_event_at, carried_in.detected_at)",
        "else coalesce(paired.previous_event_at, paired.traced_at)",
        "cases by hour",
    ),
    Mutant(
        "an increment forgets older deferrals",
        RANGES,
        "windows_from() ~ \" - \" ~ days(scoring_parameter('steady_days'))",
        "windows_from()",
        "cases by hour",
    ),
    Mutant(
        "a record's first trace is each run's",
        VERDICTS,
        "trace_position is null and not is_carried_in as is_agents_first",
        "trace_position is null as is_agents_first",
        "cases by hour",
    ),
    # certainty.md §5: signs
    Mutant(
        "a window's scores begin a day early",
        ALIKE,
        "first = as_of - windows[window].window_days * periods_per_day",
        "first = as_of - (windows[window].window_days + 1) * periods_per_day",
    ),
    Mutant(
        "a trace is a pair with itself",
        ALIKE,
        "counts * (counts - 1) // 2",
        "counts * (counts + 1) // 2",
    ),
    Mutant(
        "an absent score is a score like any other",
        ALIKE,
        "complete = (alignment != ABSENT) & (coherence != ABSENT)",
        "complete = alignment >= 0",
    ),
    Mutant(
        "agents share their scores",
        ALIKE,
        "np.unique(agent * BASE**3 + scored.triple[complete], return_inverse=True)",
        "np.unique(agent * 0 + scored.triple[complete], return_inverse=True)",
    ),
    Mutant(
        "scores are read of the newest as-of's window alone",
        READING,
        '"begin": block.fleets[0].as_of - longest,',
        '"begin": block.end - timedelta(days=7),',
    ),
    Mutant(
        "equal alignments make no pair of records",
        SIGNS,
        "coalesce(round(dsdma_domain_alignment * 1000), 1001)",
        "coalesce(round(dsdma_domain_alignment * 0), 1001)",
    ),
    Mutant(
        "chance is taken by traces in place of pairs",
        JUDGED_SIGNS,
        "of_all = n * (n - 1) / 2.0",
        "of_all = n * (n + 1) / 2.0",
        SIGNS_JUDGED,
    ),
    Mutant(
        "repeated records need no 100 traces",
        JUDGED_SIGNS,
        "REPEATED_FOUND, REPEATED_OF = 10, 100",
        "REPEATED_FOUND, REPEATED_OF = 10, 90",
        SIGNS_JUDGED,
    ),
    Mutant(
        "three times what chance gives is not enough",
        JUDGED_SIGNS,
        "REPEATED_OVER_CHANCE, REPEATED_OVER_MEDIAN = 3, 2",
        "REPEATED_OVER_CHANCE, REPEATED_OVER_MEDIAN = 3.1, 2",
        SIGNS_JUDGED,
    ),
    Mutant(
        "the fleet's repetitions do not count",
        JUDGED_SIGNS,
        "REPEATED_OVER_CHANCE, REPEATED_OVER_MEDIAN = 3, 2",
        "REPEATED_OVER_CHANCE, REPEATED_OVER_MEDIAN = 3, 1",
        SIGNS_JUDGED,
    ),
    Mutant(
        "nine equal pairs are enough",
        JUDGED_SIGNS,
        "REPEATED_FOUND, REPEATED_OF = 10, 100",
        "REPEATED_FOUND, REPEATED_OF = 9, 100",
        SIGNS_JUDGED,
    ),
    Mutant(
        "the median is of agents with few traces too",
        JUDGED_SIGNS,
        "of_median: int = 30",
        "of_median: int = 1",
        SIGNS_JUDGED,
    ),
    Mutant(
        "unreported verdicts are held against the share, not the share and one",
        JUDGED_SIGNS,
        "(y + 1) / (m + 1)",
        "y / m",
        SIGNS_JUDGED,
    ),
    Mutant(
        "two unreported verdicts are a sign",
        JUDGED_SIGNS,
        '        "shares",\n        found=3,\n        chance=1e-4,',
        '        "shares",\n        found=2,\n        chance=1e-4,',
        SIGNS_JUDGED,
    ),
    Mutant(
        "chance is the probability of exactly as many",
        JUDGED_SIGNS,
        "        tail += term",
        "        tail = np.maximum(tail, term)",
        SIGNS_JUDGED,
    ),
    Mutant(
        "a polished baseline is compared with",
        JUDGED_SIGNS,
        "if rule.compares:",
        "if False:",
        SIGNS_JUDGED,
    ),
    Mutant(
        "a baseline that has hardly begun is compared with",
        JUDGED_SIGNS,
        "LEAST_BASELINE_DAYS = 7.0",
        "LEAST_BASELINE_DAYS = 6.0",
        SIGNS_JUDGED,
    ),
    Mutant(
        "a key replaced twice is a sign",
        JUDGED_SIGNS,
        "        found=3,\n        z=1.645,",
        "        found=2,\n        z=1.645,",
        SIGNS_JUDGED,
    ),
    Mutant(
        "a null that the components contradict is by design",
        SIGNS,
        "when not {{ is_json_absent(components_of_columns()[field]) }} then 'c'",
        "when not {{ is_json_absent(components_of_columns()[field]) }} then '-'",
    ),
    Mutant(
        "numbers that begin at 1 are numbered anew",
        SIGNS,
        "{{ audit_sequence_number }} = 1 and {{ previous_audit_sequence_number }} > 1",
        "{{ audit_sequence_number }} = 1 and {{ previous_audit_sequence_number }} > 3",
    ),
    Mutant(
        "a deferral under way is left open",
        RANGES,
        "{% macro days_to_judge() -%} 7 {%- endmacro %}",
        "{% macro days_to_judge() -%} 6 {%- endmacro %}",
    ),
    Mutant(
        "a baseline's deferrals are asked at T",
        RANGES,
        "windows.window_days)\n    ) as ranges (what,",
        "0)\n    ) as ranges (what,",
    ),
    # scoring.md §9: what comes late, and the logs
    Mutant(
        "nobody looks for what came ten days before the lookback",
        LATE,
        "setting('late_detection_periods') ~ ' * '",
        "10 ~ ' * '",
        LATE_AND_LOGGED,
    ),
    Mutant(
        "nobody looks for what comes late",
        LATE,
        "having sum(n_more) > 0",
        "having sum(n_more) > 1",
        LATE_AND_LOGGED,
    ),
    Mutant(
        "a late trace changes the score at its period's start",
        LATE,
        "arrivals.period_start + {{ period_length() }} as first_as_of",
        "arrivals.period_start as first_as_of",
        LATE_AND_LOGGED,
    ),
    Mutant(
        "a late trace changes scores that are not there",
        LATE,
        "least(arrivals.period_start + scoring_run.longest_memory, scoring_run.latest_as_of) as last_as_of",
        "arrivals.period_start + scoring_run.longest_memory as last_as_of",
        LATE_AND_LOGGED,
    ),
    Mutant(
        "a key that was registered stays so",
        LATE,
        "else (public_keys.registered_until >= judged_keys.period_start + {{ period_length() }}) is not true",
        "else false",
        LATE_AND_LOGGED,
    ),
    Mutant(
        "the log counts the scores of every run",
        RUN_LOG,
        "where scored_at >= %s),",
        "where scored_at >= %s::timestamptz - interval '1 day'),",
        LATE_AND_LOGGED,
    ),
    Mutant(
        "the log counts late keys as traces",
        RUN_LOG,
        "where issue = 'late_trace')",
        "where issue like 'late%%')",
        LATE_AND_LOGGED,
    ),
    Mutant(
        "a run that published is not said to have",
        RUN_LOG,
        'attempt.outcome, attempt.exit_code = "published", 0',
        'attempt.outcome, attempt.exit_code = "built", 0',
        LATE_AND_LOGGED,
    ),
    Mutant(
        "no score is final after an increment",
        PUBLICATIONS,
        "nullif(scoring_run.cutoff, '-infinity')",
        "nullif(scoring_run.cutoff, scoring_run.cutoff)",
        LATE_AND_LOGGED,
    ),
    Mutant(
        "the newest as-of of a publication is the oldest",
        PUBLICATIONS,
        "select max(as_of) as newest_as_of",
        "select min(as_of) as newest_as_of",
        LATE_AND_LOGGED,
    ),
]
