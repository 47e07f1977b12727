{{
  config(
    materialized='incremental',
    incremental_strategy='replace_range',
    on_schema_change='fail',
    meta={'range_column': 'as_of', 'range_opens': '>'},
    indexes=[{'columns': ['agent_id_hash', 'as_of', 'window_days']}, {'columns': ['as_of']}],
    pre_hook="{{ set_for_heavy_work(joins_by_key=true) }}",
    post_hook="{{ update_statistics() }}",
  )
}}
{#- Grain: one row per agent, as-of and window (section 7). The decaying state sigma by prefix sums: a period's signals
    weigh f^-i with i the periods since this run's first, so a window of memory is a difference of two totals, scaled
    by f^i. Exact decimals, because the totals grow with f^-i and their difference must not lose digits. -#}
{%- set decay = '(1 - ' ~ scoring_parameter('decay_per_day') ~ '::numeric * ' ~ period_hours() ~ ' / 24)' -%}
with spine_periods as (

    select distinct
        agent_id_hash,
        period_start,
        as_of
    from {{ ref('int_agent_spine') }}

),

spine as (

    select
        agent_id_hash,
        window_days,
        as_of,
        window_periods,
        coherence_periods
    from {{ ref('int_agent_spine') }}
    where is_to_be_scored

),

window_sums as (

    select
        window_sums_id,
        agent_id_hash,
        as_of,
        window_days,
        n_signals_corroborated + n_signals_uncorroborated as n_signals
    from {{ ref('int_window_sums') }}
    where {{ is_rewritten('as_of', '>') }}

),

signals as (

    select
        agent_id_hash,
        period_start,
        {{ signal_weight('n_coherent_corroborated', 'n_coherent_uncorroborated') }} as coherent_weight,
        {{ signal_weight('n_signals_corroborated', 'n_signals_uncorroborated') }} as signal_weight
    from {{ ref('int_agent_periods') }}
    where period_start >= {{ read_from() }}

),

-- f^i and f^-i for each period of the run. The state at a period's end counts its own signals in full (k = 0).
decay_powers as (

    select
        period_start,
        power({{ decay }}, period_number) as decay_power,
        1 / power({{ decay }}, period_number) as growth_power
    from (
        select
            period_start,
            row_number() over (order by period_start) as period_number
        from (select distinct period_start from spine_periods) as periods
    ) as numbered_periods

),

running_totals as (

    select
        spine_periods.agent_id_hash,
        spine_periods.as_of,
        decay_powers.decay_power,
        sum(round(signals.coherent_weight * decay_powers.growth_power, 30)) over so_far as coherent_total,
        sum(round(signals.signal_weight * decay_powers.growth_power, 30)) over so_far as signal_total,
        sum(signals.signal_weight) over so_far as undecayed_total
    from spine_periods
    inner join decay_powers on spine_periods.period_start = decay_powers.period_start
    left join signals
        on
            spine_periods.agent_id_hash = signals.agent_id_hash
            and spine_periods.period_start = signals.period_start
    window so_far as (
        partition by spine_periods.agent_id_hash
        order by spine_periods.as_of
        rows between unbounded preceding and current row
    )

),

-- Windows that remember as long share their states.
memories as (

    select distinct coherence_periods
    from spine

),

states as (

    select
        at_end.agent_id_hash,
        at_end.as_of,
        memories.coherence_periods,
        at_end.decay_power * ({{ window_sum('coherent_total', 'at_end', 'at_start') }}) as sigma,
        at_end.decay_power * ({{ window_sum('signal_total', 'at_end', 'at_start') }}) as sigma_max,
        {{ window_sum('undecayed_total', 'at_end', 'at_start') }} > 0 as has_signals
    from running_totals as at_end
    cross join memories
    left join running_totals as at_start
        on
            at_end.agent_id_hash = at_start.agent_id_hash
            and at_end.as_of - memories.coherence_periods * {{ period_length() }} = at_start.as_of
    where at_end.as_of > {{ windows_from() }}

),

-- The ratio as an exact decimal, so that its sums over windows do not depend on where the sum began.
ratios as (

    select
        *,
        sum(case when has_signals then round(sigma / sigma_max, 20) end) over so_far as ratio_total,
        count(*) filter (where has_signals) over so_far as n_ratios
    from states
    window so_far as (
        partition by agent_id_hash, coherence_periods
        order by as_of
        rows between unbounded preceding and current row
    )

),

windowed as (

    select
        spine.agent_id_hash,
        spine.as_of,
        spine.window_days,
        at_end.sigma::double precision as sigma,
        {{ window_sum('ratio_total', 'at_end', 'at_start') }} as ratio_sum,
        {{ window_sum('n_ratios', 'at_end', 'at_start') }} as n_ratios
    from spine
    inner join ratios as at_end
        on
            spine.agent_id_hash = at_end.agent_id_hash
            and spine.as_of = at_end.as_of
            and spine.coherence_periods = at_end.coherence_periods
    left join ratios as at_start
        on
            spine.agent_id_hash = at_start.agent_id_hash
            and spine.as_of - spine.window_periods * {{ period_length() }} = at_start.as_of
            and spine.coherence_periods = at_start.coherence_periods

)

select
    window_sums.window_sums_id as sustained_coherence_id,
    window_sums.agent_id_hash,
    window_sums.as_of,
    window_sums.window_days,
    windowed.sigma,
    window_sums.n_signals::integer as n_signals,
    windowed.n_ratios > 0 as is_s_measured,
    coalesce((windowed.ratio_sum / nullif(windowed.n_ratios, 0))::double precision, 0) as s_score
from window_sums
inner join windowed
    on
        window_sums.agent_id_hash = windowed.agent_id_hash
        and window_sums.as_of = windowed.as_of
        and window_sums.window_days = windowed.window_days
