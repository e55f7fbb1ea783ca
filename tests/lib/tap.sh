# SPDX-License-Identifier: MIT
# Sourced by the end-to-end tests: TAP, targets, profiles.
# Every test has a scratch folder $tmp and ends what it started, by pid.
set -u
: "${top_srcdir:?run by make check}" "${top_builddir:?run by make check}"
: "${LUAJIT:=luajit}" "${CC:=cc}"
export PYTHONDONTWRITEBYTECODE=1
attach=$top_builddir/src/tecs-attach
agent=$top_builddir/src/.libs/libtecs-agent.so
targets=$top_srcdir/tests/targets
tmp=$(mktemp -d "${TMPDIR:-/tmp}/tecs-e2e.XXXXXX") || exit 99
tests=0
started=

cleanup() {
  for p in $started; do
    kill -KILL "$p" 2>/dev/null
    wait "$p" 2>/dev/null
  done
  rm -rf "$tmp"
}
trap cleanup EXIT
trap 'exit 130' INT TERM HUP

# ok TEXT: verdict of the command before it.
ok() {
  ok_status=$?
  tests=$((tests + 1))
  if [ "$ok_status" -eq 0 ]; then
    echo "ok $tests - $1"
  else
    echo "not ok $tests - $1"
  fi
  return $ok_status
}

skip() { # text, reason
  tests=$((tests + 1))
  echo "ok $tests - $1 # SKIP $2"
}

skip_all() { # reason
  echo "1..0 # SKIP $1"
  exit 0
}

# TECS_BRIEF: patterns of tests that have run a moment ago, from the same files.
set -f
for pattern in ${TECS_BRIEF-}; do
  # shellcheck disable=SC2254
  case $(basename "$0" .test) in
  $pattern) skip_all "it has run already, with the same files" ;;
  esac
done
set +f

note() {
  printf '%s\n' "$*" | sed 's/^/# /'
}

finish() {
  echo "1..$tests"
}

# say what the last run of tecs-attach wrote to stderr
explain() {
  note "status $status"
  note "$(cat "$tmp/err" 2>/dev/null)"
}

# run COMMAND...: into $tmp/out and $tmp/err, $status
run() {
  "$@" >"$tmp/out" 2>"$tmp/err"
  status=$?
}

# says STATUS REGEX TEXT: the last run ended so and said so
says() {
  [ "$status" -eq "$1" ] && grep -qE -e "$2" "$tmp/err"
  ok "$3" || explain
}

# TECS_ENGINE=ptrace: the same test without the agent, sampled from outside.
: "${TECS_ENGINE:=agent}"
if [ "$TECS_ENGINE" = ptrace ]; then
  cat >"$tmp/attach" <<EOF
#!/bin/sh
case \$1 in status | pause | resume | stop) exec "$attach" "\$@" ;; esac
exec "$attach" --no-agent "\$@"
EOF
  chmod +x "$tmp/attach"
  attach=$tmp/attach
fi

# start NAME COMMAND...: a target with the agent, in the background; $pid.
# Its output is in $tmp/NAME.out.
start() {
  start_name=$1
  shift
  preload=$agent
  [ "$TECS_ENGINE" = ptrace ] && preload=
  : >"$tmp/$start_name.out" # before the fork: ready must not see an older one's
  LD_PRELOAD=$preload "$@" >"$tmp/$start_name.out" 2>"$tmp/$start_name.err" \
    </dev/null &
  pid=$!
  started="$started $pid"
}

# start_plain NAME COMMAND...: the same without the agent
start_plain() {
  start_name=$1
  shift
  : >"$tmp/$start_name.out"
  "$@" >"$tmp/$start_name.out" 2>"$tmp/$start_name.err" </dev/null &
  pid=$!
  started="$started $pid"
}

# ready NAME: wait until the target has printed so
ready() {
  for _ in $(seq 200); do
    grep -qs '^ready' "$tmp/$1.out" && return 0
    sleep 0.05
  done
  note "$1 never became ready: $(cat "$tmp/$1.err")"
  return 1
}

# ended PID: wait for a child to end; its status
ended() {
  wait "$1"
}

state() { # PID: the letter of its state
  sed 's/.*) //; s/ .*//' "/proc/$1/stat" 2>/dev/null
}

# truth NAME WHAT: number of a target's line `truth WHAT number`
truth() {
  sed -n "s/^truth $2 //p" "$tmp/$1.out"
}

fold() { # FILE WHAT [ARGS]: see fold.py
  python3 "$top_srcdir/tests/lib/fold.py" "$@"
}

# near VALUE WANT TOLERANCE TEXT [SAMPLES]
# With SAMPLES the value is a share of that many: where a busy machine allowed
# only few, the tolerance is 5 standard deviations.
near() {
  near_t=$(awk -v w="$2" -v t="$3" -v n="${5:-0}" 'BEGIN {
    s = n > 0 && w > 0 && w < 1 ? 5 * sqrt(w * (1 - w) / n) : 0
    printf "%.4g", (s > t ? s : t) }')
  awk -v v="$1" -v w="$2" -v t="$near_t" 'BEGIN {
    exit !(v ~ /^-?[0-9.]+$/ && w ~ /^-?[0-9.]+$/ && v - w <= t && w - v <= t) }'
  ok "$4: $1, want $2 +-$near_t"
}

# by_engine AGENT PTRACE: what is asked of each.  From outside a thread has to
# come by a CPU first: where cores are contended it gives fewer samples.
by_engine() {
  [ "$TECS_ENGINE" = ptrace ] && echo "$2" || echo "$1"
}

# least VALUE WANT TEXT
least() {
  awk -v v="$1" -v w="$2" 'BEGIN { exit !(v ~ /^[0-9.]+$/ && v >= w) }'
  ok "$3: $1, at least $2"
}

# most VALUE WANT TEXT
most() {
  awk -v v="$1" -v w="$2" 'BEGIN { exit !(v ~ /^[0-9.]+$/ && v <= w) }'
  ok "$3: $1, at most $2"
}

# number REGEX: the number before that text in the closing line
number() {
  sed -nE "s/.*[^0-9]([0-9]+) $1.*/\1/p" "$tmp/err" | tail -n 1
}

# sound FILE: what holds for every profile
sound() {
  lint=$(fold "$1" lint)
  [ "$lint" = clean ]
  ok "$(basename "$1"): collapsed stacks" || note "$lint"
  [ "$(number 'samples? of')" = "$(fold "$1" sum)" ]
  ok "the samples of the closing line are the sum of the counts" || explain
  ! grep -qE '\[unknown\].*_\[N\] [0-9]+$' "$1" &&
    awk -v u="$(fold "$1" share '^\[unknown\]$')" 'BEGIN { exit !(u < 0.005) }'
  ok "no [unknown] in compiled code, and next to none elsewhere" ||
    note "$(grep -F '[unknown]' "$1" | head -n 5)"
}
