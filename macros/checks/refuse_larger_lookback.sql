{#- Post-hook of int_scoring_run: a larger lookback than before would score final as-ofs again. -#}
{% macro refuse_larger_lookback(scoring_run) %}
  {%- set rows = run_query("
    select " ~ iso_text('cutoff') ~ " as cutoff, " ~ iso_text('final_until') ~ " as final_until
    from " ~ scoring_run ~ "
    where cutoff < final_until and backfill_first is null and not is_full_refresh") if execute else [] -%}
  {%- if rows | length > 0 and not setting('allow_rescoring') -%}
    {{ refuse(
      "With ciris_lookback_periods " ~ lookback_periods() ~ " this run would score the as-ofs after " ~ rows[0]['cutoff']
      ~ ", but the scores in schema " ~ target.schema ~ " are final up to " ~ rows[0]['final_until'] ~ ". Go back to the "
      ~ "smaller lookback, or allow it once: --allow-rescoring (in plain dbt --vars 'ciris_allow_rescoring: true').") }}
  {%- endif -%}
{% endmacro %}
