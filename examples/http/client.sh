#!/bin/sh
# A client with nothing but curl: it sends standard input to a service and prints the answer.
#
#   echo hello | examples/http/client.sh http://127.0.0.1:8420 shout
#
# If the call fails, it prints the problem document on standard error and exits with 1.
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
