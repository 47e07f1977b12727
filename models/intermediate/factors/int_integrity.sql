{#- I_int = I_chain * I_coverage * I_replay (scoring.md §4): share of chain-valid traces, mean share of the ten required
    fields that are recorded, and share of traces whose decision can be replayed, estimated from samples by period.
    Grain and key: agent, as-of, window. I_replay is 1 (unmeasured) if the sample is too small. No column is null. -#}
select
    agent_id_hash,
    as_of,
    window_days,
    {{ integrity_columns() }}
from {{ ref('int_windows') }}
