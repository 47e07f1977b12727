{#- The columns of covenant_traces by how they are cleaned (scoring.md §2) and used. -#}
{% macro trace_text_columns() %}
  {{ return(['trace_id', 'thought_id', 'agent_id_hash', 'agent_name', 'signature', 'signature_key_id',
             'audit_entry_hash', 'idma_phase']) }}
{% endmacro %}

{#- Scores on [0, 1]. -#}
{% macro trace_score_columns() %}
  {{ return(['csdma_plausibility_score', 'dsdma_domain_alignment', 'coherence_level', 'entropy_level']) }}
{% endmacro %}

{#- JSON components. -#}
{% macro trace_components() %}
  {{ return(['thought_start', 'dma_results', 'conscience_result', 'action_result']) }}
{% endmacro %}

{#- The fields that I_coverage asks for (scoring.md §4). -#}
{% macro required_fields() %}
  {{ return(constant('required_fields')) }}
{% endmacro %}

{#- Those of them that are null in a cleaned row; null when none. -#}
{% macro missing_fields() -%}
  case
    when num_nulls({{ required_fields() | join(', ') }}) > 0 then array_remove(array[
      {% for field in required_fields() %}
      case when {{ field }} is null then '{{ field }}' end{% if not loop.last %},{% endif %}
      {% endfor %}
    ], null)
  end
{%- endmacro %}

{#- Every column that cleaning can turn into null. -#}
{% macro repairable_columns() %}
  {{ return(trace_text_columns() + ['selected_action'] + trace_score_columns() + ['idma_k_eff', 'audit_sequence_number']
            + (trace_components() if scoring_parameter('replay_enabled') else [])) }}
{% endmacro %}

{#- What cleaning repaired in a row of the staging model, which flags each as is_<issue> (scoring.md §8); null when
    nothing. -#}
{% macro repairs_of_trace() -%}
  {%- set repairs = [] -%}
  {%- for column in trace_text_columns() + ['selected_action'] -%}
    {%- do repairs.append('blank_' ~ column) -%}
  {%- endfor -%}
  {%- for column in trace_score_columns() + ['idma_k_eff', 'audit_sequence_number'] -%}
    {%- do repairs.append('out_of_range_' ~ column) -%}
  {%- endfor -%}
  {%- do repairs.append('oversized_id') -%}
  {%- for component in trace_components() if scoring_parameter('replay_enabled') -%}
    {%- do repairs.append('unreadable_' ~ component) -%}
  {%- endfor -%}
  case
    when num_nonnulls({{ repairable_columns() | join(', ') }}) < n_repairable_sent or event_issues is not null
      then array_remove(array[
        {% for repair in repairs %}
        case when is_{{ repair }} then '{{ repair }}' end{% if not loop.last %},{% endif %}
        {% endfor %}
      ], null) || event_issues::text[]
  end
{%- endmacro %}

{#- The scores whose drift R measures (scoring.md §5). -#}
{% macro drift_metrics() %}
  {{ return(constant('drift_metrics')) }}
{% endmacro %}

{#- The counts of covenant_trace_batches. -#}
{% macro batch_counts() %}
  {{ return(['traces_received', 'traces_accepted', 'traces_rejected']) }}
{% endmacro %}
