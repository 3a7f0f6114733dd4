#!/bin/sh
# The one-time work of the compose file. Every step may run again and then changes nothing that is in use.
#
#   setup.sh secrets      passwords into /secrets, made once
#   setup.sh configure    waits for the control plane; configuration, join tokens and a first key
#   setup.sh ARGS…        the aidy command, with the administrator's token
set -eu
umask 077

token=/secrets/admin-token
export AIDY_ADMIN_URL="${AIDY_ADMIN_URL:-http://controlplane:8081}"

random() { # random BYTES: as hexadecimal digits
  head -c "$1" /dev/urandom | od -An -v -tx1 | tr -d ' \n'
}

secrets() {
  if [ ! -s /secrets/postgres-password ]; then
    random 24 >/secrets/postgres-password.new
    mv /secrets/postgres-password.new /secrets/postgres-password
  fi
  # The form of PostgreSQL's password file, so that no address needs to carry the password.
  printf 'postgres:5432:*:aidy:%s\n' "$(cat /secrets/postgres-password)" >/secrets/pgpass
  # The programs run as 65532. PostgreSQL's image reads its file as root.
  chown -R 65532:65532 /secrets /nodes
}

wait_for() { # wait_for URL: at most two minutes
  tries=0
  until wget -q -T 2 -O /dev/null "$1" 2>/dev/null; do
    tries=$((tries + 1))
    if [ "$tries" -ge 120 ]; then
      echo "setup: $1 is not ready after two minutes:" >&2
      wget -T 2 -O - "$1" >&2 || true
      exit 1
    fi
    sleep 1
  done
}

configure() {
  wait_for http://controlplane:9091/readyz
  AIDY_ADMIN_TOKEN=$(cat "$token")
  export AIDY_ADMIN_TOKEN

  # What is there stays as it is: the file is for the first start, and operators go on from there.
  if [ ! -e /secrets/configured ]; then
    aidy apply -f /config/first.yaml -m "first configuration of the compose file"
    : >/secrets/configured
  fi
  if [ ! -s /secrets/api-key ]; then
    aidy keys create first --consumer app --tenant main >/secrets/api-key.new
    mv /secrets/api-key.new /secrets/api-key
  fi

  # A token lets one node join once, within the hour. A node that has joined does not look at it, and one
  # whose certificate ended while it was off needs a fresh one: so there is a fresh one at every start.
  for node in $NODES; do
    joining=$(aidy nodes join-token --name "$node")
    printf 'control_plane:\n  join_token: "%s"\n' "$joining" >"/nodes/$node.yaml.new"
    mv "/nodes/$node.yaml.new" "/nodes/$node.yaml"
  done
  echo "setup: ready; the first key is in /secrets/api-key"
}

case "${1:-}" in
  secrets) secrets ;;
  configure) configure ;;
  *)
    if [ -s "$token" ]; then
      AIDY_ADMIN_TOKEN=$(cat "$token")
      export AIDY_ADMIN_TOKEN
    fi
    exec aidy "$@"
    ;;
esac
