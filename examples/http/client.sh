#!/bin/sh
# A client with nothing but curl: standard input goes to a service, its answer comes out.
#
#   echo hello | examples/http/client.sh http://127.0.0.1:8420 shout
#
# What goes wrong is printed as a problem document, on standard error, with status 1.
set -eu
[ $# -ge 2 ] || { echo "usage: $0 URL SERVICE [TASK]" >&2; exit 2; }
answer=$(mktemp)
trap 'rm -f "$answer"' EXIT
status=$(curl -sS -o "$answer" -w '%{http_code}' --data-binary @- \
    -H 'Content-Type: application/octet-stream' \
    -X POST "$1/v1/call/$2?timeout=60&task=${3:-}")
if [ "$status" = 200 ]; then
    cat "$answer"
else
    cat "$answer" >&2
    exit 1
fi
