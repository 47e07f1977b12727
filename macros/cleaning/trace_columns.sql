{#- Columns of covenant_traces, by how they are cleaned (scoring.md §2): text, numbers on [0, 1], JSON components. -#}
{% macro trace_columns() %}
  {{ return({
    'text': ['trace_id', 'thought_id', 'agent_id_hash', 'agent_name', 'signature', 'signature_key_id',
             'audit_entry_hash', 'idma_phase'],
    'scores': ['csdma_plausibility_score', 'dsdma_domain_alignment', 'coherence_level', 'entropy_level'],
    'components': ['thought_start', 'dma_results', 'conscience_result', 'action_result'],
  }) }}
{% endmacro %}

{#- Columns of covenant_trace_batches that count traces. -#}
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
