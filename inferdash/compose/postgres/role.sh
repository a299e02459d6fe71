# Gives inferdash its role in the database: at each start, as a new volume has none, and one of an
# older inferdash has only the superuser, who owned the tables.
set -u
tries=60
while :; do
    psql --no-psqlrc --quiet --host /var/run/postgresql --username inferdash --dbname inferdash \
        --set ON_ERROR_STOP=1 --set "verifier=$(cat /database/verifier)" \
        --set "profiles=${COMPOSE_PROFILES:-}" --single-transaction \
        --file /etc/inferdash/role.sql
    code=$?
    # 2: no connection. A new volume's first server is soon gone again.
    tries=$((tries - 1))
    [ "$code" = 2 ] && [ "$tries" -gt 0 ] || exit "$code"
    sleep 1
done
