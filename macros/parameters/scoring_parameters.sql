{#- All scoring parameters, which the variable ciris_scoring_parameters overrides. docs/configuration.md says where the
    defaults come from. -#}
{% macro scoring_parameter_definitions() %}
  {{ return({
    'lambda_c': {'kind': 'number', 'default': 5, 'minimum': 2, 'maximum': 10, 'section': '3',
      'meaning': 'Sensitivity of C to identity changes: C has the factor exp(-lambda_c * d_identity).'},
    'mu_c': {'kind': 'number', 'default': 10, 'minimum': 5, 'maximum': 20, 'section': '3',
      'meaning': 'Sensitivity of C to overridden actions: C has the factor exp(-mu_c * k_contradiction).'},
    'integrity_floor': {'kind': 'number', 'default': 0, 'minimum': 0, 'maximum': 1, 'section': '4',
      'meaning': 'Smallest value of I_int in the composite scores. The column i_int_score may be smaller.'},
    'require_registered_keys': {'kind': 'boolean', 'default': true, 'section': '4',
      'meaning': 'Whether a chain-valid trace needs a registered key that is neither revoked nor expired.'},
    'replay_enabled': {'kind': 'boolean', 'default': true, 'section': '4',
      'meaning': 'Whether the source has the JSON component columns; false leaves i_replay unmeasured.'},
    'replay_sample_per_period': {'kind': 'integer', 'default': 30, 'minimum': 1, 'maximum': 1000000, 'section': '4',
      'meaning': 'Traces sampled for replay per agent and period.'},
    'replay_sample_salt': {'kind': 'text', 'default': '', 'section': '4', 'secret': true,
      'meaning': 'Prefix of trace_id in the sampling hash; its value is not published.'},
    'replay_min_sample': {'kind': 'integer', 'default': 30, 'minimum': 1, 'maximum': 1000000, 'section': '4',
      'meaning': 'Sampled traces that a window needs; with fewer, i_replay is unmeasured.'},
    'mttr_scale_hours': {'kind': 'number', 'default': 1, 'minimum': 0.001, 'maximum': 8760, 'section': '5',
      'meaning': 'tau in hours: the mean time to recovery that halves the recovery term of R.'},
    'norm_k': {'kind': 'number', 'default': 5, 'minimum': 0.1, 'maximum': 50, 'section': '5',
      'meaning': 'Steepness k of the sigmoid that normalises R.'},
    'norm_x0': {'kind': 'number', 'default': 0.5, 'minimum': 0, 'maximum': 1, 'section': '5',
      'meaning': 'Midpoint x0 of the sigmoid that normalises R.'},
    'drift_pseudo_count': {'kind': 'number', 'default': 0.5, 'minimum': 0.001, 'maximum': 10, 'section': '5',
      'meaning': 'alpha: pseudo-counts per histogram bin, added before the KL divergence. Their sum over all bins is distributed in proportion to both windows together.'},
    'drift_min_sample': {'kind': 'integer', 'default': 30, 'minimum': 1, 'maximum': 1000000, 'section': '5',
      'meaning': 'Values that a metric needs in the scoring window and in the baseline window to be measurable.'},
    'unsafe_entropy_threshold': {'kind': 'number', 'default': 0.5, 'minimum': 0, 'maximum': 1, 'section': '6',
      'meaning': 'A failed action with an entropy_level above this is unsafe.'},
    'decay_per_day': {'kind': 'number', 'default': 0.05, 'minimum': 0.02, 'maximum': 0.10, 'section': '7',
      'meaning': 'd: share of the coherence state that is lost per day.'},
    'w_corroborated': {'kind': 'number', 'default': 1, 'minimum': 0.5, 'maximum': 2, 'section': '7',
      'meaning': 'Weight of a coherence signal that the other agents of the hour corroborate.'},
    'w_uncorroborated': {'kind': 'number', 'default': 0.5, 'minimum': 0.5, 'maximum': 2, 'section': '7',
      'meaning': 'Weight of a coherence signal that the other agents do not corroborate.'},
    'corroboration_tolerance': {'kind': 'number', 'default': 0.1, 'minimum': 0, 'maximum': 1, 'section': '7',
      'meaning': 'A signal is corroborated if the coherence level of its agent differs by at most this from the mean of the other agents of the hour.'},
    'min_traces': {'kind': 'integer', 'default': 30, 'minimum': 1, 'maximum': 1000000, 'section': '8',
      'meaning': 'Traces that a window needs for a composite score.'},
    'warm_up_days': {'kind': 'integer', 'default': 7, 'minimum': 0, 'maximum': 365, 'section': '8',
      'meaning': 'Days of history before the window that a final score needs; with fewer it is provisional.'},
    'weight_c': {'kind': 'number', 'default': 0.2, 'minimum': 0, 'maximum': 1, 'section': '8',
      'meaning': 'Weight of C in the geometric composite; the five weights sum to 1.'},
    'weight_i_int': {'kind': 'number', 'default': 0.2, 'minimum': 0, 'maximum': 1, 'section': '8',
      'meaning': 'Weight of I_int in the geometric composite.'},
    'weight_r': {'kind': 'number', 'default': 0.2, 'minimum': 0, 'maximum': 1, 'section': '8',
      'meaning': 'Weight of R in the geometric composite.'},
    'weight_i_inc': {'kind': 'number', 'default': 0.2, 'minimum': 0, 'maximum': 1, 'section': '8',
      'meaning': 'Weight of I_inc in the geometric composite.'},
    'weight_s': {'kind': 'number', 'default': 0.2, 'minimum': 0, 'maximum': 1, 'section': '8',
      'meaning': 'Weight of S in the geometric composite.'},
    'fragility_epsilon': {'kind': 'number', 'default': 0.001, 'minimum': 0.000000001, 'maximum': 1, 'section': '8',
      'meaning': 'epsilon in fragility_index = 1 / (epsilon + capacity_score).'},
    'steady_days': {'kind': 'integer', 'default': 90, 'minimum': 1, 'maximum': 3650, 'section': '8',
      'meaning': 'Days that mttr_hours_steady and q_deferral_steady describe. If the window is longer, they describe the window.'},
    'low_capacity_threshold': {'kind': 'number', 'default': 0.3, 'minimum': 0, 'maximum': 1, 'section': '8',
      'meaning': 'Alert low_capacity: capacity_score below this.'},
    'chain_gap_share': {'kind': 'number', 'default': 0.01, 'minimum': 0, 'maximum': 1, 'section': '8',
      'meaning': 'Alert broken_chain: share of traces with a gap, above which the alert may be critical.'},
    'chain_gap_z': {'kind': 'number', 'default': 3.09, 'minimum': 0, 'maximum': 10, 'section': '8',
      'meaning': 'Alert broken_chain: excess of gaps over the 90 days before the window, in standard deviations, from which the alert may be critical.'},
    'falling_least_drop': {'kind': 'number', 'default': 0.05, 'minimum': 0, 'maximum': 1, 'section': '8',
      'meaning': 'Alert falling: the smallest drop that raises the alert. The drop is that of the score without episodes, deferrals and drift.'},
    'falling_ratio': {'kind': 'number', 'default': 7.5, 'minimum': 0, 'maximum': 1000, 'section': '8',
      'meaning': 'Alert falling: smallest log likelihood ratio of a change for the worse in the last 42 days that raises the alert.'},
    'episode_z': {'kind': 'number', 'default': 3.1, 'minimum': 0, 'maximum': 10, 'section': '8',
      'meaning': 'Alert episode: smallest worsening of episodes or deferrals that raises the alert, as the signed root of its likelihood ratio.'},
    'silent_days': {'kind': 'integer', 'default': 2, 'minimum': 1, 'maximum': 365, 'section': '8',
      'meaning': 'Alert silent: days without a trace.'},
    'silent_min_traces': {'kind': 'integer', 'default': 30, 'minimum': 1, 'maximum': 1000000, 'section': '8',
      'meaning': 'Alert silent: smallest number of traces in the window before the silent days.'},
    'silent_forget_days': {'kind': 'integer', 'default': 90, 'minimum': 1, 'maximum': 3650, 'section': '1',
      'meaning': 'Days after its last trace from which a silent agent has no row and no alert any more.'},
  }) }}
{% endmacro %}

{#- The value of a parameter: the override if there is one, otherwise the default. -#}
{% macro scoring_parameter(name) %}
  {%- set definition = scoring_parameter_definitions()[name] -%}
  {%- set overrides = setting('scoring_parameters') -%}
  {#- Overrides that are not a dictionary are skipped here, because check_variables refuses them later. -#}
  {{ return(overrides.get(name, definition['default']) if overrides is mapping else definition['default']) }}
{% endmacro %}

{#- A parameter's value as text, for publication and hashing. Equal values, such as 5 and 5.0, have the same text. -#}
{% macro scoring_parameter_text(name, value=none) %}
  {%- set kind = scoring_parameter_definitions()[name]['kind'] -%}
  {%- set value = scoring_parameter(name) if value is none else value -%}
  {%- if kind == 'number' -%} {{ return((value | float) | string) }}
  {%- elif kind == 'boolean' -%} {{ return('true' if value else 'false') }}
  {%- else -%} {{ return(value | string) }}
  {%- endif -%}
{% endmacro %}

{#- The allowed range of a parameter in words, for messages and the published table. -#}
{% macro scoring_parameter_range(name) %}
  {%- set definition = scoring_parameter_definitions()[name] -%}
  {%- if definition['kind'] == 'boolean' -%} {{ return('true or false') }}
  {%- elif definition['kind'] == 'text' -%} {{ return('any text') }}
  {%- elif definition['kind'] == 'integer' -%}
    {{ return('whole number in [' ~ definition['minimum'] ~ ', ' ~ definition['maximum'] ~ ']') }}
  {%- else -%} {{ return('number in [' ~ definition['minimum'] ~ ', ' ~ definition['maximum'] ~ ']') }}
  {%- endif -%}
{% endmacro %}

{#- Hash of all settings that influence a published number. Arguments: three seeds. -#}
{% macro parameter_set_id(windows, categories, outcomes) -%}
  {%- set parameters = [] -%}
  {%- for name in scoring_parameter_definitions() -%}
    {%- do parameters.append("(" ~ literal('parameter ' ~ name) ~ ", " ~ literal(local_md5(scoring_parameter_text(name))) ~ ")") -%}
  {%- endfor %}
  (
    select left(md5(string_agg(deciding.item || '=' || deciding.setting, E'\n' order by deciding.item collate "C")), 12)
    from (
      select parameters.item, parameters.setting from (values {{ parameters | join(', ') }}) as parameters (item, setting)
      union all
      select
        'period',
        '{{ setting('scoring_period') }}'
      union all
      select
        'traces_from',
        extract(epoch from {{ traces_from() }})::text
      {#- The default has no line, so that it does not change the hash of earlier versions. -#}
      {%- set run_kinds = valid_setting('scored_run_kinds') | unique | sort | join('|') %}
      {%- if run_kinds != 'production' %}
      union all
      select
        'scored_run_kinds',
        '{{ run_kinds }}'
      {%- endif %}
      union all
      select
        'window ' || window_days,
        concat_ws('|', baseline_days, coherence_days)
      from {{ windows }}
      union all
      select
        'category ' || category,
        concat_ws('|', coalesce(lower_bound::text, '-'), coalesce(upper_bound::text, '-'))
      from {{ categories }}
      union all
      select
        'deferral ' || status,
        concat_ws('|', is_judged::text, coalesce(correctness::text, '-'))
      from {{ outcomes }}
    ) as deciding
  )
{%- endmacro %}
