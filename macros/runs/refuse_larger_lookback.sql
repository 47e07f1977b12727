{#- Post-hook of int_scoring_run: what was final stays final. A lookback larger than that of the runs before would score
    as-ofs again that nobody expects to change. -#}
{% macro refuse_larger_lookback(scoring_run) %}
  {%- set rows = run_query("
    select to_char(cutoff at time zone 'UTC', 'YYYY-MM-DD HH24:MI'), to_char(final_until at time zone 'UTC', 'YYYY-MM-DD HH24:MI')
    from " ~ scoring_run ~ "
    where cutoff < final_until and backfill_first is null and not is_full_refresh") if execute else [] -%}
  {%- if rows | length > 0 and not var('allow_rescoring') -%}
    {{ exceptions.raise_compiler_error(
      "With lookback_periods " ~ lookback_periods() ~ " this run would score again what comes after " ~ rows[0][0]
      ~ ", but the scores in schema " ~ target.schema ~ " are final up to " ~ rows[0][1] ~ ". Go back to the smaller "
      ~ "lookback, or allow it once: --allow-rescoring (in plain dbt --vars 'allow_rescoring: true').") }}
  {%- endif -%}
{% endmacro %}

{#- Up to which as-of the scores are final, as an SQL literal: the newest cutoff of an ordinary run since the last one
    that scored everything. -#}
{% macro final_until() %}
  {%- set rows = [] -%}
  {%- if last_publication() is not none -%}
    {%- set log = relation_as_left('int_score_publications', 'intermediate') -%}
    {%- set rows = run_query("
      select to_char(max(p.cutoff) at time zone 'UTC', 'YYYY-MM-DD HH24:MI:SS')
      from " ~ log ~ " as p
      where p.backfill_first is null and p.published_at > (
        select coalesce(max(whole.published_at), '-infinity') from " ~ log ~ " as whole where whole.is_full_refresh)") -%}
  {%- endif -%}
  {%- if rows | length == 0 or rows[0][0] is none -%} {{ return('null::timestamptz') }} {%- endif -%}
  {{ return("timestamptz '" ~ rows[0][0] ~ "+00'") }}
{% endmacro %}
