{#- Post-hook of int_scoring_run: scores of two parameter sets never mix. All inputs of a score descend from that model,
    so nothing has changed yet. -#}
{% macro refuse_other_parameters(scoring_run) %}
  {%- set rows = run_query("select parameter_set_id, published_parameter_set_id from " ~ scoring_run
      ~ " where parameter_set_id <> published_parameter_set_id and not is_full_refresh") if execute else [] -%}
  {%- if rows | length > 0 -%}
    {{ refuse(
      "The parameters of this run (parameter_set_id " ~ rows[0]['parameter_set_id'] ~ ") are not those of the scores "
      ~ "published in schema " ~ target.schema ~ " (" ~ rows[0]['published_parameter_set_id'] ~ "). Go back to those, or "
      ~ "score everything again (--full-refresh with --allow-rescoring; in plain dbt --full-refresh --vars "
      ~ "'ciris_allow_rescoring: true'), or publish under another schema.") }}
  {%- endif -%}
{% endmacro %}
