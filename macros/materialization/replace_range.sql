{#- Incremental strategy replace_range: rewrite the range of the run (in_rewritten_range), in the materialization's own
    transaction. Unlike delete+insert it also removes keys that the source no longer has. The model names the column in
    its meta: scored_range for as-ofs, judged_range for times. Rows from outside the range that the model selects are
    added; it must select only such as are not there, or name in meta.also_replaced_by the columns by whose values they
    replace. A small table without a range is rewritten whole (meta.rewritten): unlike a table that dbt swaps for a new
    one, it keeps the views that others have made of it, and nobody who reads it waits. -#}
{% macro get_incremental_replace_range_sql(arg_dict) %}
  {%- set meta = config.get('meta') -%}
  {%- set range = 'true' if meta.get('rewritten') == 'whole' else in_rewritten_range(meta) -%}
  {%- set columns = get_quoted_csv(arg_dict['dest_columns'] | map(attribute='name')) %}
  delete from {{ arg_dict['target_relation'] }}
  where {{ range }};
  {%- if 'also_replaced_by' in meta %}

  delete from {{ arg_dict['target_relation'] }} as published
  using (
    select distinct {{ meta['also_replaced_by'] | join(', ') }}
    from {{ arg_dict['temp_relation'] }}
    where not ({{ range }})
  ) as older
  where
    {%- for column in meta['also_replaced_by'] %}
    published.{{ column }} = older.{{ column }}{% if not loop.last %} and{% endif %}
    {%- endfor %};
  {%- endif %}

  insert into {{ arg_dict['target_relation'] }} ({{ columns }})
  select {{ columns }}
  from {{ arg_dict['temp_relation'] }};
  {%- if is_filled_first() %}

  drop table {{ arg_dict['temp_relation'] }};
  {%- endif %}
{% endmacro %}
