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
    where each row rests on those before it (carried_on), the later ones are rewritten all the same. -#}
{% macro in_rewritten_range(meta) -%}
  {%- if bounds_of_run().get('backfill_first') and not meta.get('carried_on') -%}
    {{ in_scored_range(meta['scored_range']) if 'scored_range' in meta else in_judged_range(meta['judged_range']) }}
  {%- elif 'scored_range' in meta -%}
    {{ meta['scored_range'] }} > {{ cutoff() }}
  {%- else -%}
    {{ meta['judged_range'] }} >= {{ rejudged_from() }}
  {%- endif -%}
{%- endmacro %}
