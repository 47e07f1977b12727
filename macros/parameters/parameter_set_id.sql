{#- SQL for the hash of everything that decides a number, one line each in a fixed order. Arguments:
    int_scoring_parameters and the three seeds. -#}
{% macro parameter_set_id(parameters, windows, categories, outcomes) -%}
  (
    select left(md5(string_agg(deciding.item || '=' || deciding.setting, E'\n' order by deciding.item collate "C")), 12)
    from (
      select
        'parameter ' || parameter_name as item,
        value_digest as setting
      from {{ parameters }}
      union all
      select
        'period',
        '{{ setting('scoring_period') }}'
      union all
      select
        'traces_from',
        extract(epoch from {{ traces_from() }})::text
      union all
      select
        'window ' || window_days,
        concat_ws('|', baseline_days, coherence_days)
      from {{ windows }}
      union all
      select
        'category ' || category,
        concat_ws('|', coalesce(lower_bound::text, '-'), coalesce(upper_bound::text, '-'))
      from {{ categories }}
      union all
      select
        'deferral ' || status,
        concat_ws('|', is_judged::text, coalesce(correctness::text, '-'))
      from {{ outcomes }}
    ) as deciding
  )
{%- endmacro %}
