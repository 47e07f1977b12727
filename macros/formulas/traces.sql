{#- Formulas for a single trace, or for an agent in an hour. -#}

{#- scoring.md §4: whether a trace's link to the agent's previous trace with an audit number is valid. The agent's first
    trace with an audit number needs only an audit entry hash. The order of the conditions prevents an overflow of the
    subtraction. -#}
{% macro is_link_valid(has_entry_hash, sequence_number, previous_sequence_number) -%}
  case
    when not {{ has_entry_hash }} or {{ sequence_number }} is null then false
    when {{ previous_sequence_number }} is null then true
    when {{ sequence_number }} > {{ previous_sequence_number }}
      then {{ sequence_number }} - 1 = {{ previous_sequence_number }}
    else false
  end
{%- endmacro %}

{#- scoring.md §4: whether audit numbers are missing between an audit number and the agent's previous one. A gap counts
    with or without an audit entry hash. -#}
{% macro is_chain_gap(sequence_number, previous_sequence_number) -%}
  case
    when {{ sequence_number }} > {{ previous_sequence_number }}
      then {{ sequence_number }} - 1 > {{ previous_sequence_number }}
    else false
  end
{%- endmacro %}

{#- Number of audit numbers that are missing in a gap, at most a billion, because the difference of two bigint values may
    not fit into bigint. -#}
{% macro missing_numbers(sequence_number, previous_sequence_number) -%}
  least({{ sequence_number }}::numeric - {{ previous_sequence_number }} - 1, 1000000000)::bigint
{%- endmacro %}

{#- scoring.md §4: registered keys and the end of their registration. If the registry has several entries for a key, the
    earliest revocation or expiry counts. -#}
{% macro registered_keys() -%}
  select
    key_id,
    coalesce(least(min(revoked_at), min(expires_at)), 'infinity') as registered_until
  from {{ ref('stg_cirislens__covenant_public_keys') }}
  where key_id is not null
  group by key_id
{%- endmacro %}

{#- Whether a key was registered at a time. registered_until is null for a key that the registry does not have. -#}
{% macro is_key_registered(registered_until, moment) -%}
  coalesce({{ registered_until }} > {{ moment }}, false)
{%- endmacro %}

{#- scoring.md §6, U_unsafe: whether an action failed under high uncertainty. -#}
{% macro is_unsafe(entropy_level, action_success) -%}
  coalesce({{ entropy_level }} > {{ scoring_parameter('unsafe_entropy_threshold') }} and not {{ action_success }}, false)
{%- endmacro %}

{#- scoring.md §3: whether an action was overridden although no check or guardrail judged against it, because a check of
    the conscience did not run. The JSON component is read only if the action was overridden, because reading it is
    slow. -#}
{% macro is_override_without_judgement() -%}
  case
    when action_was_overridden then coalesce(
      conscience_result @> '{"action_was_overridden": true}'
      and (
        conscience_result @> '{"ethical_faculties_skipped": true}'
        or conscience_result ->> 'conscience_override_reason' like '%DID NOT RUN%'
      )
      and not conscience_result @> any(array[
        '{"entropy_passed": false}', '{"coherence_passed": false}', '{"optimization_veto_passed": false}',
        '{"epistemic_humility_passed": false}', '{"thought_depth_triggered": true}', '{"updated_status_detected": true}'
      ]::jsonb []),
      false
    )
    else false
  end
{%- endmacro %}

{#- scoring.md §7: whether other agents agree with an agent in an hour. The difference is rounded to 12 decimals, so
    that a difference of exactly the tolerance is within it. -#}
{% macro is_corroborated(own_mean, mean_of_others) -%}
  coalesce(
    round(abs({{ own_mean }} - {{ mean_of_others }}), 12) <= {{ scoring_parameter('corroboration_tolerance') }}, false
  )
{%- endmacro %}
