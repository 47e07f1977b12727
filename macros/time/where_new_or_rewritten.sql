{#- What an increment takes from int_capacity_scores into a table behind the gate: everything that the run
    rewrites, and older rows that were scored since this table was last written and are not in it (they had waited for
    the Python step). -#}
{% macro where_new_or_rewritten(candidates) %}
  {%- set rewritten = in_scored_range(candidates ~ '.as_of') %}
  {%- if is_incremental() %}
  where
        {{ rewritten }}
        or (
            {{ candidates }}.scored_at > (select coalesce(max(latest.scored_at), '-infinity') from {{ this }} as latest)
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
