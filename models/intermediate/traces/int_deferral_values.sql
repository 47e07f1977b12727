{{
  config(
    materialized='replace_range',
    indexes=[{'columns': ['agent_id_hash']}],
    pre_hook="{{ set_for_heavy_work() }}",
  )
}}
{#- Agent and value of each deferral, found from earlier data only (scoring.md §6, Q_deferral). Computed again in every
    run, because deferrals are few. Grain: source row of wbd_deferrals created before the latest as-of, or undated. -#}
with scoring_run as (

    select as_of
    from {{ ref('int_scoring_run') }}

),

deferrals as (

    select
        row_number() over (
            order by deferrals.created_at, deferrals.deferral_id collate "C" -- noqa: RF02
        ) as deferral_number,
        deferrals.deferral_id,
        deferrals.agent_id,
        deferrals.agent_name,
        deferrals.status,
        deferrals.has_resolution_summary,
        deferrals.resolved_at,
        deferrals.created_at,
        encode(sha256(convert_to(deferrals.agent_id, 'UTF8')), 'hex') as agent_id_sha256
    from {{ ref('stg_cirislens__wbd_deferrals') }} as deferrals
    cross join scoring_run
    where
        deferrals.created_at is null
        or deferrals.created_at < scoring_run.as_of

),

outcomes as (

    select
        status,
        is_judged,
        correctness
    from {{ ref('deferral_outcomes') }}

),

agents as (

    select
        agent_id_hash,
        length(agent_id_hash) as hash_length,
        first_traced_at
    from {{ ref('int_agents') }}

),

-- First time at which each agent used each of its names.
used_names as (

    select
        agent_id_hash,
        agent_name,
        min(named_from) as first_used_at
    from {{ ref('int_agent_names') }}
    group by
        agent_id_hash,
        agent_name

),

-- Lengths of the agents' hashes, 8 characters or more. An agent's hash may be the beginning of the SHA-256 of a
-- deferral's agent_id. There are few lengths, so the SHA-256 is cut to each length and joined by equality.
hash_lengths as (

    select distinct hash_length
    from agents
    where hash_length >= 8

),

-- Without the optimization barrier PostgreSQL would compare each deferral with each agent.
sha256_prefixes as (

    select
        deferrals.deferral_number,
        deferrals.created_at,
        lengths.hash_length,
        left(deferrals.agent_id_sha256, lengths.hash_length) as sha256_prefix
    from deferrals
    cross join hash_lengths as lengths
    offset 0 -- noqa: AM09

),

by_sha256 as (

    select distinct on (prefixes.deferral_number)
        prefixes.deferral_number,
        agents.agent_id_hash
    from sha256_prefixes as prefixes
    inner join agents
        on
            prefixes.sha256_prefix = agents.agent_id_hash
            and prefixes.hash_length = agents.hash_length
            and prefixes.created_at > agents.first_traced_at
    order by
        prefixes.deferral_number asc,
        prefixes.hash_length desc

),

by_name as (

    select
        deferrals.deferral_number,
        min(used_names.agent_id_hash) as agent_id_hash
    from deferrals
    inner join used_names
        on
            deferrals.agent_name = used_names.agent_name
            and deferrals.created_at > used_names.first_used_at
    group by deferrals.deferral_number
    having count(*) = 1

)

select
    {{ surrogate_key(['deferrals.deferral_id', 'deferrals.deferral_number']) }} as deferral_value_id,
    deferrals.deferral_id,
    coalesce(by_hash.agent_id_hash, by_sha256.agent_id_hash, by_name.agent_id_hash) as agent_id_hash,
    deferrals.created_at,
    deferrals.resolved_at,
    deferrals.status,
    outcomes.status is not null as is_known_status,
    coalesce(outcomes.is_judged, false) as is_judged,
    greatest(deferrals.created_at, deferrals.resolved_at) as judged_from,
    case
        -- Correctness, or half of it if no answer is recorded (scoring.md, section 6).
        when outcomes.is_judged
            then outcomes.correctness::numeric * case when deferrals.has_resolution_summary then 1 else 0.5 end
    end as deferral_value
from deferrals
left join outcomes on deferrals.status = outcomes.status
left join agents as by_hash
    on
        deferrals.agent_id = by_hash.agent_id_hash
        and deferrals.created_at > by_hash.first_traced_at
left join by_sha256 on deferrals.deferral_number = by_sha256.deferral_number
left join by_name on deferrals.deferral_number = by_name.deferral_number
