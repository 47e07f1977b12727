{#- The column of int_trace_checks that each counter of periods and windows counts. -#}
{% macro counted_verdicts() %}
  {{ return({
    'n_identity_changes': 'is_identity_change',
    'n_overridden': 'is_overridden',
    'n_conscience_failed': 'is_conscience_failed',
    'n_signature_verified': 'is_signature_verified',
    'n_key_registered': 'is_key_registered',
    'n_link_valid': 'is_link_valid',
    'n_chain_valid': 'is_chain_valid',
    'n_chain_gaps': 'is_chain_gap',
    'n_chain_rewinds': 'is_chain_rewind',
    'n_chain_duplicates': 'is_chain_duplicate',
    'n_replay_sampled': 'is_replay_sampled',
    'n_unsafe': 'is_unsafe',
    'n_recoveries': 'is_fragility_recovered',
  }) }}
{% endmacro %}

{#- Condition of the rows that this run wrote, so that no test reads years of history. They are in the range of the
    column meta.range of the model, or null there. All rows if the model has no range. -#}
{% macro in_increment(relation, alias=none) %}
  {%- set scoring_run = ref('int_scoring_run') -%}
  {%- if not execute -%} {{ return('true') }} {%- endif -%}
  {%- set model = graph.nodes.values() | selectattr('resource_type', 'equalto', 'model')
      | selectattr('package_name', 'equalto', 'ciris_scoring')
      | selectattr('alias', 'equalto', relation.identifier) | first -%}
  {%- set range = model['config']['meta'].get('range') -%}
  {%- if range in [none, 'last_event_at', 'run_id'] -%} {{ return('true') }} {%- endif -%}
  {%- set column = range if alias is none else alias ~ '.' ~ range -%}
  {{ return('(' ~ (in_scored_range(column) if range == 'as_of' else in_checked_range(column)) ~ ' or ' ~ column ~ ' is null)') }}
{% endmacro %}
