{% if is_testable() %}
-- Every row of int_windows has a row in fct_capacity_scores, and every score has a row in int_windows.
with window_rows as (

    select
        agent_id_hash,
        as_of,
        window_days,
        true as is_there
    from {{ ref('int_windows') }}
    where {{ in_increment(ref('int_windows')) }}

),

scores as (

    select
        agent_id_hash,
        as_of,
        window_days,
        true as is_there
    from {{ rows_after_run('fct_capacity_scores') }}
    where {{ in_increment(ref('fct_capacity_scores')) }}

)

select
    agent_id_hash,
    as_of,
    window_days
from window_rows
full join scores using (agent_id_hash, as_of, window_days)
where num_nulls(window_rows.is_there, scores.is_there) > 0
{% else %}
{{ untested() }}
{% endif %}
