-- Scores made with other parameters, windows, categories or outcomes never mix with those that are published: the run
-- stops here, before it has changed anything that a score is made of.
{%- set scoring_run = ref('int_scoring_run') -%}
{%- if execute and flags.WHICH in ['build', 'test'] -%}
  {%- set rows = run_query("select parameter_set_id, published_parameter_set_id from " ~ scoring_run
      ~ " where parameter_set_id <> published_parameter_set_id and not is_full_refresh") -%}
  {%- if rows | length > 0 -%}
    {{ exceptions.raise_compiler_error(
      "The parameters of this run (parameter_set_id " ~ rows[0][0] ~ ") are not those of the scores published in schema "
      ~ target.schema ~ " (" ~ rows[0][1] ~ "). Go back to those, or score everything again (--full-refresh with "
      ~ "--allow-rescoring; in plain dbt --full-refresh --vars 'allow_rescoring: true'), or publish under another "
      ~ "schema.") }}
  {%- endif -%}
{%- endif %}
select parameter_set_id
from {{ scoring_run }}
where false
