dir=/tmp/tare-postgres-$1
/usr/bin/initdb -D "$dir" -U tare -A trust --locale=C --encoding=UTF8 --no-sync --no-instructions >/dev/null || exit 1
echo 'host all all all trust' >>"$dir/pg_hba.conf" || exit 1
exec /usr/bin/postgres -D "$dir" -p "$1" -c listen_addresses="$2" -c unix_socket_directories= \
	-c max_connections="$3" -c shared_buffers=32MB -c dynamic_shared_memory_type=mmap \
	-c jit=off -c enable_seqscan=off -c autovacuum=off -c log_min_messages=fatal
