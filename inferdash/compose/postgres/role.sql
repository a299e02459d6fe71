SET client_min_messages = warning;

SELECT 'CREATE ROLE inferdash_app'
WHERE NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'inferdash_app') \gexec

-- Not the password, but what it is checked by: who reads this cannot log in with it.
ALTER ROLE inferdash_app LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION NOBYPASSRLS
    PASSWORD :'verifier';
ALTER DATABASE inferdash OWNER TO inferdash_app;
REVOKE ALL ON DATABASE inferdash FROM PUBLIC;

-- A hub makes a role a box, ends its sessions and drops it; a role of another maker it cannot touch.
SELECT 'ALTER ROLE inferdash_app CREATEROLE'
WHERE 'hub' = ANY (string_to_array(:'profiles', ',')) \gexec
SELECT 'ALTER ROLE inferdash_app SET createrole_self_grant = ''set, inherit'''
WHERE current_setting('server_version_num')::int >= 160000 \gexec

GRANT ALL ON SCHEMA public TO inferdash_app;

-- What an older inferdash made as the superuser. Indexes and sequences go with their tables.
DO $$
DECLARE
    each text;
BEGIN
    FOR each IN
        SELECT format('ALTER TABLE %s OWNER TO inferdash_app', c.oid::regclass)
        FROM pg_class c
        WHERE c.relnamespace = 'public'::regnamespace
            AND c.relkind IN ('r', 'p', 'v', 'm')
            AND pg_get_userbyid(c.relowner) <> 'inferdash_app'
        UNION ALL
        SELECT format('ALTER SEQUENCE %s OWNER TO inferdash_app', c.oid::regclass)
        FROM pg_class c
        WHERE c.relnamespace = 'public'::regnamespace
            AND c.relkind = 'S'
            AND pg_get_userbyid(c.relowner) <> 'inferdash_app'
            AND NOT EXISTS (
                SELECT FROM pg_depend d
                WHERE d.objid = c.oid AND d.classid = 'pg_class'::regclass AND d.deptype IN ('a', 'i')
            )
        UNION ALL
        SELECT format('ALTER ROUTINE %s OWNER TO inferdash_app', p.oid::regprocedure)
        FROM pg_proc p
        WHERE p.pronamespace = 'public'::regnamespace
            AND pg_get_userbyid(p.proowner) <> 'inferdash_app'
    LOOP
        EXECUTE each;
    END LOOP;
END
$$;
