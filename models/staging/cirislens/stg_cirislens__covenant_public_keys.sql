{#- Registered keys. The trace store has two registries; if it has neither, no key is registered. Grain: source row. -#}
{%- set registry = source_if_there('covenant_public_keys', source_shape()) -%}
{%- set agents = source_if_there('accord_public_keys', source_shape()) -%}
{%- set federation = source_if_there('federation_keys', source_shape()) -%}
{%- set revocations = source_if_there('federation_revocations', source_shape()) -%}
with source as (

    {{ rows_if_there(registry or agents, {
      'key_id': 'text', 'expires_at': 'timestamptz', 'revoked_at': 'timestamptz',
    }) }}
    {% if federation %}

    union all

    select
        key_id,
        valid_until as expires_at,
        {% if revocations %}
        (
            select min(revocations.effective_at)
            from {{ revocations }} as revocations
            where revocations.revoked_key_id = keys.key_id
        ) as revoked_at
        {% else %}
        null::timestamptz as revoked_at
        {% endif %}
    from {{ federation }} as keys
    {% endif %}

)

select
    {{ clean_text('key_id') }} as key_id,
    expires_at::timestamptz as expires_at,
    revoked_at::timestamptz as revoked_at
from source
