-- Rows in, rows out: every row of int_windows is a candidate, and no candidate has another origin. A row that is
-- missing here would be missing in the marts.
with window_rows as (

    select
        agent_id_hash,
        as_of,
        window_days,
        true as is_there
    from {{ ref('int_windows') }}
    where {{ in_increment(ref('int_windows')) }}

),

candidates as (

    select
        agent_id_hash,
        as_of,
        window_days,
        true as is_there
    from {{ ref('int_capacity_scores') }}

)

select
    agent_id_hash,
    as_of,
    window_days
from window_rows
full join candidates using (agent_id_hash, as_of, window_days)
where num_nulls(window_rows.is_there, candidates.is_there) > 0
