{#- I_int = I_chain * I_coverage * I_replay (scoring.md §4): the share of chain-valid traces, the mean share of the ten
    required fields that are there, and the share of sampled traces whose decision can be replayed, by period.
    Grain and key: agent, as-of, window. With too small a sample I_replay is unmeasured and 1; nothing is null. -#}
select
    agent_id_hash,
    as_of,
    window_days,
    {{ integrity_columns() }}
from {{ ref('int_windows') }}
