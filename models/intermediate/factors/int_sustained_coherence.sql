{{
  config(
    materialized='replace_range',
    meta={'scored_range': 'as_of'},
    indexes=[{'columns': ['as_of']}],
    pre_hook="{{ set_for_heavy_work(joins_by_key=true) }}",
  )
}}
{#- S(T; W) = mean of sigma(t) / sigma_max(t) over the period ends t in (T - W, T] that remember a signal (scoring.md
    §7). sigma(t) = sum of w f^k over the coherent signals in [t - M, t), sigma_max(t) the same over all signals: w the
    weight of a signal, k its age in whole periods, f = 1 - d * period, M the memory (coherence_days).
    Grain, key: agent, as-of, window. Without a signal S is unmeasured and 0; sigma and sigma_max are never null. -#}
{#- By prefix sums. Time is cut into stretches of one memory, the same in every run, and a period weighs f^-i by its
    place i = 1, 2, ... in its stretch. The end at place j remembers its own stretch up to j, and of the one before what
    comes after j: sigma f^-(M + j) = (before, after j) + f^-M (own, up to j). Every power is 1 or more and reaches no
    further than two memories, and totals are exact decimals: a difference loses nothing, however long the history. -#}
with spine_periods as {{ inlined() }}(

    select
        agent_id_hash,
        period_start,
        as_of,
        span_start
    from {{ ref('int_agent_spine') }}

),

window_sums as (

    select
        agent_id_hash,
        as_of,
        window_days,
        window_start,
        coherence_days,
        n_signals_corroborated + n_signals_uncorroborated as n_signals
    from {{ ref('int_window_sums') }}
    where {{ in_scored_range('as_of') }}

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

-- Windows that remember as long share their states.
memories as (

    select distinct
        coherence_days,
        {{ days('coherence_days') }} as memory
    from {{ ref('scoring_windows') }}

),

stretches as (

    select
        periods.period_start,
        memories.coherence_days,
        memories.memory,
        {{ stretch_start('memories.memory', 'periods.period_start') }} as stretch_start
    from (select distinct period_start from spine_periods) as periods
    cross join memories

),

-- f^-i for the place i of each period in its stretch, and f^-M.
growth as {{ worked_out_once() }}(

    select
        period_start,
        coherence_days,
        memory,
        stretch_start,
        {{ coherence_growth(periods_in('period_start - stretch_start') ~ ' + 1') }} as growth_in_stretch,
        {{ coherence_growth(periods_in('memory')) }} as growth_of_stretch
    from stretches

),

stretch_totals as {{ inlined() }}(

    select
        spine_periods.agent_id_hash,
        spine_periods.as_of,
        spine_periods.span_start,
        growth.coherence_days,
        growth.memory,
        growth.stretch_start,
        growth.growth_in_stretch,
        growth.growth_of_stretch,
        sum(round(signals.coherent_weight * growth.growth_in_stretch, 30)) over so_far as coherent_total,
        sum(round(signals.signal_weight * growth.growth_in_stretch, 30)) over so_far as signal_total
    from spine_periods
    inner join growth using (period_start)
    left join signals using (agent_id_hash, period_start)
    window so_far as (
        partition by
            spine_periods.agent_id_hash,
            growth.coherence_days,
            spine_periods.span_start,
            growth.stretch_start
        order by spine_periods.as_of
        rows between unbounded preceding and current row
    )

),

-- The states times f^-(M + j). What the stretch before holds after place j: its total at its end less that one memory
-- before this end; both are null where the span begins later.
grown_states as {{ inlined() }}(

    select
        own.agent_id_hash,
        own.as_of,
        own.span_start,
        own.coherence_days,
        own.growth_of_stretch * own.growth_in_stretch as growth,
        {{ window_sum('coherent_total', 'stretch_before', 'memory_before') }}
        + own.growth_of_stretch * coalesce(own.coherent_total, 0) as grown_sigma,
        {{ window_sum('signal_total', 'stretch_before', 'memory_before') }}
        + own.growth_of_stretch * coalesce(own.signal_total, 0) as grown_sigma_max
    from stretch_totals as own
    left join stretch_totals as stretch_before
        on
            own.agent_id_hash = stretch_before.agent_id_hash
            and own.coherence_days = stretch_before.coherence_days
            and own.span_start = stretch_before.span_start
            and own.stretch_start = stretch_before.as_of
    left join stretch_totals as memory_before
        on
            own.agent_id_hash = memory_before.agent_id_hash
            and own.coherence_days = memory_before.coherence_days
            and own.span_start = memory_before.span_start
            and own.as_of - own.memory = memory_before.as_of
    where own.as_of > {{ windows_from() }}

),

-- The ratio as an exact decimal, so that its sums over windows do not depend on where the sum began.
ratios as {{ inlined() }}(

    select
        agent_id_hash,
        as_of,
        span_start,
        coherence_days,
        grown_sigma / growth as sigma,
        grown_sigma_max / growth as sigma_max,
        sum(case when grown_sigma_max > 0 then round(grown_sigma / grown_sigma_max, 20) end) over so_far as ratio_total,
        count(*) filter (where grown_sigma_max > 0) over so_far as n_ratios
    from grown_states
    window so_far as (
        partition by agent_id_hash, coherence_days, span_start
        order by as_of
        rows between unbounded preceding and current row
    )

),

windowed as (

    select
        window_sums.agent_id_hash,
        window_sums.as_of,
        window_sums.window_days,
        window_sums.n_signals,
        at_end.sigma::double precision as sigma,
        at_end.sigma_max::double precision as sigma_max,
        at_end.ratio_total - coalesce(at_start.ratio_total, 0) as ratio_sum,
        at_end.n_ratios - coalesce(at_start.n_ratios, 0) as n_ratios
    from window_sums
    inner join ratios as at_end using (agent_id_hash, as_of, coherence_days)
    left join ratios as at_start
        on
            window_sums.agent_id_hash = at_start.agent_id_hash
            and window_sums.window_start = at_start.as_of
            and window_sums.coherence_days = at_start.coherence_days
            and at_end.span_start = at_start.span_start

)

select
    agent_id_hash,
    as_of,
    window_days,
    sigma,
    sigma_max,
    n_signals::integer as n_signals,
    n_ratios > 0 as is_s_measured,
    coalesce((ratio_sum / nullif(n_ratios, 0))::double precision, 0) as s_score
from windowed
