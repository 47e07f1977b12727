{{
  config(
    materialized='replace_range',
    meta={'scored_range': 'as_of'},
    indexes=[{'columns': ['as_of']}],
    pre_hook="{{ set_for_heavy_work(joins_by_key=true) }}",
  )
}}
{#- Every sign of a polished record (certainty.md §5) that is raised at the as-ofs of a run: a warning, never part
    of a score. Grain: agent, as-of, window, sign and field. field is null where the sign has none; what new_identity
    compares with, and its z, are null. -#}
-- depends_on: {{ ref('int_scoring_run') }}
with signs as (

    {% for kind in ['counted', 'deferral', 'escalation', 'phase', 'score', 'identity'] %}
    select
        agent_id_hash,
        as_of,
        window_days,
        sign,
        {{ 'null as ' if kind != 'counted' }}field,
        value,
        {{ 'null as ' if kind == 'identity' }}comparison_value,
        {{ 'null as ' if kind == 'identity' }}compared_with,
        {{ 'null as ' if kind == 'identity' }}z,
        message
    from {{ ref('int_' ~ kind ~ '_signs') }}
    {% if not loop.last %}union all{% endif %}
    {% endfor %}

)

select
    {{ surrogate_key(['agent_id_hash', epoch('as_of'), 'window_days', 'sign'], nullable=['field']) }} as record_sign_id,
    agent_id_hash,
    as_of,
    window_days,
    sign,
    field,
    value,
    comparison_value,
    compared_with,
    z,
    message
from signs
