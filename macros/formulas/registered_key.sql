{#- Until when a key was registered (scoring.md §4), over its entries in the registry: one that stands twice is as
    revoked and as expired as its strictest entry. -#}
{% macro registered_until() -%}
  coalesce(least(min(revoked_at), min(expires_at)), 'infinity')
{%- endmacro %}

{#- Whether it was at a time; registered_until is null for a key that the registry does not have. -#}
{% macro is_key_registered(registered_until, moment) -%}
  coalesce({{ registered_until }} > {{ moment }}, false)
{%- endmacro %}

{#- Number that stands for a key in the verdicts and in what is made of them. -#}
{% macro key_hash(key_id) -%}
  hashtextextended({{ key_id }}, 0)
{%- endmacro %}

{#- The query of the registered keys, and until when each is. -#}
{% macro registered_keys() -%}
  select
    key_id,
    {{ registered_until() }} as registered_until
  from {{ ref('stg_cirislens__covenant_public_keys') }}
  where key_id is not null
  group by key_id
{%- endmacro %}
