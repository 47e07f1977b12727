{#- I_int = I_chain * I_coverage * I_replay (scoring.md §4): share of chain-valid traces, mean share of the ten required
    fields that are recorded, and share of traces whose decision can be replayed, estimated from samples by period.
    Grain and key: agent, as-of, window. I_replay is 1 (unmeasured) if the sample is too small. No column is null. -#}
with shares as (

    select
        agent_id_hash,
        as_of,
        window_days,
        n_chain_valid / n_traces::double precision as i_chain,
        n_signature_verified / n_traces::double precision as signature_rate,
        n_key_registered / n_traces::double precision as key_rate,
        n_link_valid / n_traces::double precision as link_rate,
        n_chain_gaps::integer as chain_gaps,
        n_chain_rewinds::integer as chain_rewinds,
        n_chain_duplicates::integer as chain_duplicates,
        n_fields_present / ({{ constant('required_fields') | length }} * n_traces)::double precision as i_coverage,
        {{ scoring_parameter('replay_enabled') | string | lower }}
        and n_replay_sampled >= {{ scoring_parameter('replay_min_sample') }} as is_replay_measured,
        replay_success_weight / n_traces::double precision as replayable_share,
        n_replay_sampled::integer as n_replayed
    from {{ ref('int_windows') }}

),

measured as (

    select
        *,
        case when is_replay_measured then replayable_share else 1 end as i_replay
    from shares

)

select
    agent_id_hash,
    as_of,
    window_days,
    i_chain,
    signature_rate,
    key_rate,
    link_rate,
    chain_gaps,
    chain_rewinds,
    chain_duplicates,
    i_coverage,
    i_replay,
    is_replay_measured,
    n_replayed,
    i_chain * i_coverage * i_replay as i_int_score
from measured
