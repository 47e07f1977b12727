{#- Columns of covenant_traces, by how they are cleaned (scoring.md §2): text, scores on [0, 1], JSON components. -#}
{% macro trace_columns() %}
  {{ return({
    'text': ['trace_id', 'thought_id', 'agent_id_hash', 'agent_name', 'signature', 'signature_key_id',
             'audit_entry_hash', 'idma_phase'],
    'scores': ['csdma_plausibility_score', 'dsdma_domain_alignment', 'coherence_level', 'entropy_level'],
    'components': ['thought_start', 'dma_results', 'conscience_result', 'action_result'],
  }) }}
{% endmacro %}

{#- Columns that cleaning can set to null. -#}
{% macro repairable_columns() %}
  {%- set columns = trace_columns() -%}
  {{ return(columns.text + ['selected_action'] + columns.scores + ['idma_k_eff', 'audit_sequence_number']
            + (columns.components if scoring_parameter('replay_enabled') else [])) }}
{% endmacro %}

{#- Array of the repairs that were made in a row (scoring.md §8); null if there are none. The staging model has a flag
    is_<issue> for each kind of repair. -#}
{% macro repairs_of_trace() -%}
  {%- set repairs = [] -%}
  {%- for column in trace_columns().text + ['selected_action'] -%}
    {%- do repairs.append('blank_' ~ column) -%}
  {%- endfor -%}
  {%- for column in trace_columns().scores + ['idma_k_eff', 'audit_sequence_number'] -%}
    {%- do repairs.append('out_of_range_' ~ column) -%}
  {%- endfor -%}
  {%- do repairs.append('oversized_id') -%}
  {%- for component in trace_columns().components if scoring_parameter('replay_enabled') -%}
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

{#- Counts in covenant_trace_batches. -#}
{% macro batch_counts() %}
  {{ return(['traces_received', 'traces_accepted', 'traces_rejected']) }}
{% endmacro %}

{#- Names of the required fields that are null in a cleaned row; null if there are none. -#}
{% macro missing_fields() -%}
  {%- set fields = constant('required_fields') -%}
  case
    when num_nulls({{ fields | join(', ') }}) > 0 then array_remove(array[
      {% for field in fields %}
      case when {{ field }} is null then '{{ field }}' end{% if not loop.last %},{% endif %}
      {% endfor %}
    ], null)
  end
{%- endmacro %}
