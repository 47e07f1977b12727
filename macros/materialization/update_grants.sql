{#- Brings the rights to a relation in line with the config grants, if there is one, in the words of the server: dbt's own
    macro quotes no role and does not tell "BI" from bi. -#}
{% macro update_grants(relation) %}
  {%- set grants = config.get('grants') -%}
  {%- if grants -%}
    {%- set wanted = [] -%}
    {%- for privilege, roles in grants.items() -%}
      {%- for role in ([roles] if roles is string else roles) -%}
        {%- do wanted.append((privilege | lower, 'public' if role | lower == 'public' else role)) -%}
      {%- endfor -%}
    {%- endfor -%}
    {%- set found, changes = [], [] -%}
    {%- for row in run_query("
        select rights.privilege_type, case rights.grantee when 0 then 'public' else grantees.rolname end
        from pg_class as c
        cross join aclexplode(c.relacl) as rights
        left join pg_roles as grantees on rights.grantee = grantees.oid
        where c.oid = to_regclass(" ~ literal(relation) ~ ") and rights.grantee <> c.relowner and rights.grantor = c.relowner") -%}
      {%- do found.append((row[0] | lower, row[1])) -%}
    {%- endfor -%}
    {%- for privilege, role in found if (privilege, role) not in wanted -%}
      {%- do changes.append('revoke ' ~ privilege ~ ' on ' ~ relation ~ ' from ' ~ quoted_role(role)) -%}
    {%- endfor -%}
    {%- for privilege, role in wanted | unique if (privilege, role) not in found -%}
      {%- do changes.append('grant ' ~ privilege ~ ' on ' ~ relation ~ ' to ' ~ quoted_role(role)) -%}
    {%- endfor -%}
    {%- if changes -%} {%- do run_query(changes | join(';\n')) -%} {%- endif -%}
  {%- endif -%}
{% endmacro %}

{#- A role as GRANT takes it; no role can have the name public. -#}
{% macro quoted_role(role) %}
  {{ return('public' if role == 'public' else '"' ~ role | replace('"', '""') ~ '"') }}
{% endmacro %}
