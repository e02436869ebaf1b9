dir=/tmp/tare-nginx-$1
listen=$2:$1
case $2 in
*:*) listen=[$2]:$1 ;; # IPv6
esac
mkdir "$dir" "$dir/html" || exit 1
awk -v n="$3" 'BEGIN { for (i = 0; i < n; i++) printf "%c", 97 + i % 23 }' >"$dir/html/tare" || exit 1
cat >"$dir/conf" <<END || exit 1
daemon off;
user root;
worker_processes $4;
pid $dir/pid;
error_log stderr warn;
events { worker_connections 16384; }
http {
	access_log off;
	sendfile on;
	tcp_nopush on;
	keepalive_requests 1000000000;
	client_body_temp_path $dir/body;
	proxy_temp_path $dir/proxy;
	fastcgi_temp_path $dir/fastcgi;
	uwsgi_temp_path $dir/uwsgi;
	scgi_temp_path $dir/scgi;
	server {
		listen $listen backlog=4096;
		root $dir/html;
		location = /tare-status { stub_status; }
	}
}
END
exec /usr/bin/nginx -p "$dir" -c "$dir/conf" -e stderr
