{#- A key of one column for a row whose natural key has several: an MD5 over them, times as seconds since 1970. columns
    are never null; of those in nullable, null is a value of its own, told from every text ('-' stands for it, and a
    text that begins with one gets another). -#}
{% macro surrogate_key(columns, nullable=[]) -%}
  md5(concat_ws(
    '|'
    {%- for column in nullable -%}
    , coalesce(regexp_replace(({{ column }})::text, '^-', '--'), '-')
    {%- endfor -%}
    {%- for column in columns -%}
    , {{ column }}
    {%- endfor -%}
  ))
{%- endmacro %}

{#- A time as a part of such a key. -#}
{% macro epoch(moment) -%}
  extract(epoch from {{ moment }})
{%- endmacro %}
