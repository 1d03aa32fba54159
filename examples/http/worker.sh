#!/bin/sh
# Any command as a worker, with nothing but curl: the job comes in on the command's standard
# input, what it prints is the result, and a status other than 0 is a failed task.
#
#   examples/http/worker.sh http://127.0.0.1:8420 shout tr a-z A-Z
#
# The body of a raw job is these bytes; of any other job it is JSON with task, args and kwargs.
set -u
[ $# -ge 3 ] || { echo "usage: $0 URL SERVICE COMMAND [ARGUMENT...]" >&2; exit 2; }
base=$1 service=$2
shift 2
folder=$(mktemp -d)
json='Content-Type: application/json'
bytes='application/octet-stream'

post() { # PATH, then more arguments for curl
    path=$1
    shift
    curl -sS -X POST "$base/v1/workers$path" "$@"
}

ready() {
    # It does not poll while the command runs, so it asks for a long lease.
    offer="{\"services\":[\"$service\"],\"busy_lease\":3600}"
    session=$(post '' -f -H "$json" -d "$offer" | sed -n 's/.*"session":"\([0-9a-f]*\)".*/\1/p')
    after=0
    [ -n "$session" ] || sleep 1
}

leave() {
    [ -z "$session" ] || curl -sS -X DELETE "$base/v1/workers/$session"
    rm -rf "$folder"
    exit 0
}

header() {
    tr -d '\r' <"$folder/head" | sed -n "s/^dragoman-$1: //p"
}

poll() { # in the background, so that a signal interrupts it at once
    post "/$session/poll" -H "$json" -H "Accept: $bytes" -d "{\"wait\":20,\"after\":$after}" \
        -D "$folder/head" -o "$folder/job" -w '%{http_code}' >"$folder/status" &
    wait $!
}

report() { # posted until the broker answers; a second post changes nothing
    until post "/$session/jobs/$job/$attempt?kind=final" -o "$folder/verdict" "$@"; do sleep 1; done
}

work() {
    job=$(header job) attempt=$(header attempt)
    if "$@" <"$folder/job" >"$folder/result" 2>"$folder/errors"; then
        report -H "Content-Type: $bytes" --data-binary "@$folder/result"
    else
        message=$(head -c 500 "$folder/errors" | tr -cd '[:alnum:] .,:;_/-')
        report -H "$json" -d "{\"fault\":{\"code\":\"task_failed\",\"message\":\"$message\"}}"
    fi
}

session='' after=0
trap leave INT TERM
while :; do
    if [ -z "$session" ]; then
        ready
    elif ! poll; then
        sleep 1
    elif [ "$(cat "$folder/status")" = 404 ]; then
        session=''
    elif [ "$(cat "$folder/status")" = 200 ]; then
        word=$(header word)
        after=${word:-$after}
        [ "$(header kind)" != job ] || work "$@"
    else
        sleep 1
    fi
done
