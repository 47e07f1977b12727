-- Functions with which plain PostgreSQL imitates a coordinator of Citus. Tables are not moved. The functions are in
-- pg_catalog as in Citus, so a superuser must create them.

create table public.stand_in_tables (
    relid oid primary key, partmethod "char" not null, repmodel "char" not null, attnum smallint, colocationid bigint
);

set allow_system_table_mods to on;

create view pg_catalog.pg_dist_partition as
select
    relid::regclass as logicalrelid, partmethod, repmodel, colocationid, case when attnum is not null then format('varattno %s', attnum) end as partkey
from public.stand_in_tables
inner join pg_class on relid = pg_class.oid;

reset allow_system_table_mods;

create function pg_catalog.create_distributed_table(
    table_name regclass, distribution_column text, distribution_type text default 'hash', colocate_with text default 'default'
) returns void language sql as $$
    insert into public.stand_in_tables
    select table_name, 'h', 's', pg_attribute.attnum, coalesce(beside.colocationid, table_name::oid)
    from pg_attribute
    left join public.stand_in_tables as beside
        on colocate_with <> 'default' and beside.relid = to_regclass(colocate_with)
    where attrelid = table_name and attname = distribution_column
$$;

create function pg_catalog.create_reference_table(table_name regclass) returns void language sql as $$
    insert into public.stand_in_tables values (table_name, 'n', 't')
$$;
