-- Functions with which plain PostgreSQL imitates a coordinator of Citus. Tables are not moved, but statements that Citus
-- refuses for distributed tables are refused. The functions are in pg_catalog as in Citus, so a superuser must create them.

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

create function public.stand_in_null_refused() returns trigger language plpgsql as $$
begin
    if to_jsonb(new) ->> tg_argv[0] is null then
        raise 'the partition column of table % cannot be NULL', tg_relid::regclass;
    end if;
    return new;
end $$;

create function public.stand_in_check_indexes(checked oid) returns void language plpgsql as $$
declare refused text;
begin
    select indexrelid::regclass into refused
    from pg_index
    inner join public.stand_in_tables on indrelid = relid
    where relid = checked and partmethod = 'h' and indisunique and attnum <> all(indkey);
    if refused is not null then
        raise 'cannot create constraint on "%": the distribution column is not in unique index %', checked::regclass, refused;
    end if;
end $$;

create function pg_catalog.create_distributed_table(
    table_name regclass, distribution_column text, distribution_type text default 'hash', colocate_with text default 'default'
) returns void language plpgsql as $$
declare found smallint; wanted_type oid; other_type oid; beside bigint := table_name::oid;
begin
    if (select relpersistence = 't' or relkind <> 'r' from pg_class where oid = table_name) then
        raise '% is not an ordinary table', table_name;
    end if;
    select attnum, atttypid into found, wanted_type
    from pg_attribute where attrelid = table_name and attname = distribution_column and not attisdropped;
    if found is null then
        raise 'column "%" of relation % does not exist', distribution_column, table_name;
    end if;
    if colocate_with <> 'default' then
        select atttypid, colocationid into other_type, beside
        from public.stand_in_tables
        inner join pg_attribute on relid = attrelid and stand_in_tables.attnum = pg_attribute.attnum
        where relid = colocate_with::regclass and partmethod = 'h';
        if other_type is distinct from wanted_type then
            raise 'cannot colocate tables % and %', colocate_with, table_name;
        end if;
    end if;
    insert into public.stand_in_tables values (table_name, 'h', 's', found, beside);
    perform public.stand_in_check_indexes(table_name);
    execute format(
        'create trigger stand_in before insert or update on %s for each row execute function public.stand_in_null_refused(%L)',
        table_name, distribution_column
    );
end $$;

create function pg_catalog.create_reference_table(table_name regclass) returns void language plpgsql as $$
begin
    if (select relpersistence = 't' or relkind <> 'r' from pg_class where oid = table_name) then
        raise '% is not an ordinary table', table_name;
    end if;
    insert into public.stand_in_tables values (table_name, 'n', 't');
end $$;

create function public.stand_in_look_again() returns event_trigger language plpgsql as $$
declare changed record;
begin
    for changed in select coalesce(i.indrelid, c.objid) as relid
        from pg_event_trigger_ddl_commands() as c left join pg_index as i on c.objid = i.indexrelid
        where c.classid = 'pg_class'::regclass
    loop
        perform public.stand_in_check_indexes(changed.relid);
    end loop;
end $$;

create event trigger stand_in on ddl_command_end when tag in ('CREATE INDEX', 'ALTER TABLE')
execute function public.stand_in_look_again();
