{{ config(meta={'range': 'as_of'}) }}
{#- I_int = I_chain * I_coverage * I_replay (scoring.md §4): the share of chain-valid traces, the mean share of the ten
    required fields that are there, and the share of sampled traces whose decision can be replayed, by period.
    Grain and key: agent, as-of, window. With too small a sample I_replay is unmeasured and 1; nothing is null. -#}
{%- set replay_is_measured = scoring_parameter('replay_enabled') | string | lower
  ~ ' and n_replay_sampled >= ' ~ scoring_parameter('replay_min_sample') -%}
with window_sums as (

    select
        agent_id_hash,
        as_of,
        window_days,
        {{ rate('n_chain_valid', 'n_traces') }} as i_chain,
        {{ rate('n_signature_verified', 'n_traces') }} as signature_rate,
        {{ rate('n_key_registered', 'n_traces') }} as key_rate,
        {{ rate('n_link_valid', 'n_traces') }} as link_rate,
        n_chain_gaps::integer as chain_gaps,
        n_chain_rewinds::integer as chain_rewinds,
        n_chain_duplicates::integer as chain_duplicates,
        {{ rate('n_fields_present', '(' ~ required_fields() | length ~ ' * n_traces)') }} as i_coverage,
        {{ replay_is_measured }} as is_replay_measured,
        case
            when {{ replay_is_measured }} then {{ rate('replay_success_weight', 'n_traces') }}
            else 1
        end as i_replay,
        n_replay_sampled::integer as n_replayed
    from {{ ref('int_windows') }}

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
    {{ integrity('i_chain', 'i_coverage', 'i_replay') }} as i_int_score
from window_sums
