{#- Unique ids of the models that the second half of a run builds, as selectors.yml has it: those that wait for Python. -#}
{% macro after_resilience() %}
  {%- set found = ['model.ciris_scoring.int_resilience', 'model.ciris_scoring.int_score_intervals'] -%}
  {%- set models = graph.nodes.values() | selectattr('resource_type', 'equalto', 'model')
      | selectattr('package_name', 'equalto', 'ciris_scoring') | list -%}
  {%- for generation in models -%}
    {%- set n_before = found | length -%}
    {%- for node in models if node.unique_id not in found and node.depends_on.nodes | select('in', found) | list -%}
      {%- do found.append(node.unique_id) -%}
    {%- endfor -%}
    {%- if found | length == n_before -%} {{ return(found) }} {%- endif -%}
  {%- endfor -%}
{% endmacro %}

{#- On-run-end: notes in int_scoring_run that the whole first half of the run was built and passed its tests, but for what
    ciris-scoring found unchanged. -#}
{% macro note_first_half(results) %}
  {%- if not (execute and flags.WHICH in ['run', 'build'] and 'model.ciris_scoring.int_scoring_run' in selected_resources) -%}
    {{ return('') }}
  {%- endif -%}
  {%- set late = after_resilience() -%}
  {%- set built = setting('unchanged_nodes') | list -%}
  {%- for result in results if result.node.package_name == 'ciris_scoring' and result.node.resource_type != 'unit_test' -%}
    {%- if result.status not in ['success', 'pass', 'warn'] -%} {{ return('') }} {%- endif -%}
    {%- do built.append(result.node.unique_id) -%}
  {%- endfor -%}
  {%- for node in graph.nodes.values() -%}
    {%- if node.resource_type == 'model' and node.package_name == 'ciris_scoring' and node.unique_id not in late + built
        and node.config.materialized != 'ephemeral' -%}
      {{ return('') }}
    {%- endif -%}
  {%- endfor -%}
  {%- do write_under_lock() -%}
  {%- do run_query("update " ~ relation_as_left('int_scoring_run') ~ " set first_half_ended_at = now()") -%}
  {{ return('commit') }}
{% endmacro %}

{#- On-run-end: plain dbt, which cannot make R, says so at its end. --warn-error makes an error of it. -#}
{% macro warn_of_waiting_scores(results) %}
  {%- for result in results if result.node.name == 'warn_scores_waiting_for_ciris_scoring_resilience' and result.failures -%}
    {%- do exceptions.warn(
      result.failures ~ " scores wait for the Python step and are in no mart. To publish them: ciris-scoring run.") -%}
  {%- endfor -%}
{% endmacro %}
