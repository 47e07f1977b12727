{#- Post-hook of int_scoring_run, from which all inputs of a score descend, so that nothing has changed yet: scores of two
    parameter sets never mix, and a larger lookback than before would score final as-ofs again. -#}
{% macro refuse_rescoring(scoring_run) %}
  {%- set rows = run_query("
    select
      " ~ utc_text('cutoff') ~ " as cutoff, " ~ utc_text('final_until') ~ " as final_until,
      parameter_set_id, published_parameter_set_id, parameter_set_id <> published_parameter_set_id as has_other_parameters
    from " ~ scoring_run ~ "
    where
      not is_full_refresh
      and (parameter_set_id <> published_parameter_set_id or (cutoff < final_until and backfill_first is null))
    ") if execute else [] -%}
  {%- for run in rows if run['has_other_parameters'] -%}
    {{ refuse(
      "The parameters of this run (parameter_set_id " ~ run['parameter_set_id'] ~ ") are not those of the scores "
      ~ "published in schema " ~ target.schema ~ " (" ~ run['published_parameter_set_id'] ~ "). Go back to those, or "
      ~ "score everything again (--full-refresh with --allow-rescoring; in plain dbt --full-refresh --vars "
      ~ "'ciris_allow_rescoring: true'), or publish under another schema.") }}
  {%- endfor -%}
  {%- for run in rows if not setting('allow_rescoring') -%}
    {{ refuse(
      "With ciris_lookback_periods " ~ lookback_periods() ~ " this run would score the as-ofs after " ~ shown_time(run['cutoff'])
      ~ ", but the scores in schema " ~ target.schema ~ " are final up to " ~ shown_time(run['final_until']) ~ ". Go back to the "
      ~ "smaller lookback, or allow it once: --allow-rescoring (in plain dbt --vars 'ciris_allow_rescoring: true').") }}
  {%- endfor -%}
{% endmacro %}
