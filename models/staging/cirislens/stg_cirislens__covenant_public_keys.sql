{#- Grain: one row of the source. -#}
with source as (

    select
        key_id,
        algorithm,
        created_at,
        expires_at,
        revoked_at
    from {{ source('cirislens', 'covenant_public_keys') }}

),

cleaned as (

    select
        {{ blank_to_null('key_id::text') }} as key_id,
        {{ blank_to_null('algorithm::text') }} as algorithm,
        created_at::timestamptz as created_at,
        expires_at::timestamptz as expires_at,
        revoked_at::timestamptz as revoked_at
    from source

)

select * from cleaned
