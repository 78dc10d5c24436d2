-- A job that a program creates at run time is managed by `app`. SQLite has no statement that changes a check; this is the
-- way that its documentation describes (https://sqlite.org/lang_altertable.html, section 7). The schema is read again at
-- once.
pragma writable_schema = on;
update sqlite_schema
set sql = replace(sql, 'managed_by in (''api'', ''code'', ''sql'', ''file'', ''system'')',
                       'managed_by in (''api'', ''code'', ''sql'', ''file'', ''system'', ''app'')')
where type = 'table' and name = 'hourbell_jobs';
pragma writable_schema = reset;

-- Other connections read the schema again when its version changes. The update leaves the version alone; these do not.
create table hourbell_schema_changed (x integer) strict;
drop table hourbell_schema_changed;
