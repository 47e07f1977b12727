{#- What an increment takes from int_capacity_scores into a table behind the gate: everything that the run
    rewrites, and older rows that were scored since this table was last written and are not in it (they had waited for
    the Python step). -#}
{% macro where_new_or_rewritten(candidates) %}
  {%- set rewritten = in_scored_range(candidates ~ '.as_of') %}
  {%- if is_incremental() %}
  where
        {{ rewritten }}
        or (
            {{ candidates }}.scored_at > {{ last_scored_at() }}
            and not exists (
                select 1
                from {{ this }} as published
                where
                    published.agent_id_hash = {{ candidates }}.agent_id_hash
                    and published.window_days = {{ candidates }}.window_days
                    and published.as_of = {{ candidates }}.as_of
            )
        )
  {%- endif %}
{% endmacro %}

{#- When the newest row of the model's table was scored. Workers of a cluster take no subquery there, and so a literal. -#}
{% macro last_scored_at() %}
  {%- if execute and is_distributed() -%}
    {%- set found = run_query("select " ~ utc_text('max(latest.scored_at)') ~ " from " ~ this ~ " as latest")[0][0] -%}
    {{ return("timestamptz '-infinity'" if found is none else utc_literal(found)) }}
  {%- endif -%}
  {{ return("(select coalesce(max(latest.scored_at), '-infinity') from " ~ this ~ " as latest)") }}
{% endmacro %}
