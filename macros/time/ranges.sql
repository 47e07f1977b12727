{#- The as-ofs that a run scores: those after its cutoff, which is final. Bounded on both sides, because a backfill leaves
    what lies behind it. -#}
{% macro in_scored_range(column) -%}
  ({{ column }} > {{ cutoff() }} and {{ column }} <= {{ run_as_of() }})
{%- endmacro %}

{#- The times (or starts of periods and hours) whose traces a run judges. -#}
{% macro in_judged_range(column) -%}
  ({{ column }} >= {{ rejudged_from() }} and {{ column }} < {{ run_as_of() }})
{%- endmacro %}

{#- The rows of a model that a run rewrites. A model names the column that says so in its meta: scored_range for as-ofs,
    judged_range for times. What lies behind a run's as-of was left by one that did not end, unless it is a backfill's;
    where each row rests on those before it (carried_on), the later ones are rewritten all the same. event_range is a column
    of times too, of what is found before the run knows its bounds. -#}
{% macro in_rewritten_range(meta) -%}
  {%- if 'event_range' in meta -%}
    {{ 'true' if events_from() is none else meta['event_range'] ~ ' >= ' ~ events_from() }}
  {%- elif bounds_of_run().get('backfill_first') and not meta.get('carried_on') -%}
    {{ in_scored_range(meta['scored_range']) if 'scored_range' in meta else in_judged_range(meta['judged_range']) }}
  {%- elif 'scored_range' in meta -%}
    {{ meta['scored_range'] }} > {{ cutoff() }}
  {%- else -%}
    {{ meta['judged_range'] }} >= {{ rejudged_from() }}
  {%- endif -%}
{%- endmacro %}

{#- From when on a run looks through events, as SQL: the lookback, or what a backfill judges. None for all of them. -#}
{% macro events_from() %}
  {%- set published = last_publication() if is_incremental() else none -%}
  {%- if published is none -%} {{ return(none) }} {%- endif -%}
  {%- set lookback_from = lookback_start(utc_literal(published['newest_published_as_of']), as_of()) -%}
  {%- set backfill = setting('backfill') -%}
  {{ return("(" ~ lookback_from ~ ")" if backfill is none else
            "least(" ~ lookback_from ~ ", '" ~ backfill['rejudged_from'] ~ "'::timestamptz)") }}
{% endmacro %}
