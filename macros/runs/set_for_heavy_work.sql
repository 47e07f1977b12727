{#- Settings for the sorts, hashes and indexes of one large model, until the end of its own transaction. Compiling its
    expressions (jit) takes seconds and saves less. -#}
{% macro set_for_heavy_work() -%}
  set local work_mem = '{{ var("scoring_work_mem") }}';
  set local maintenance_work_mem = '{{ var("scoring_work_mem") }}';
  set local jit = off
{%- endmacro %}
