# SPDX-License-Identifier: MIT
# For tests of lines in compiled code: programs whose lines cost as much as they
# say, sampled and judged.  Sourced after tap.sh.
# shellcheck shell=sh

# profile NAME SECONDS COMMAND...: of a program, into $tmp/profile
profile() {
  target=$1 seconds=$2
  shift 2
  LD_PRELOAD=$(by_engine "$agent" "") "$@" &
  started="$started $!"
  pid=$!
  sleep 0.5
  "$attach" record --lines --no-native -F 400 -d "$seconds" \
    $(by_engine "" --no-agent) -o "$tmp/profile" "$pid" 2>"$tmp/err"
  ok "$target: a profile"
  kill -KILL "$pid"
  note "$(cat "$tmp/err")"
}

# What the closing line says of the samples in compiled code.
compiled() {
  sed -n "s/.*compiled:.* \([0-9.]*\) % $1.*/\1/p" "$tmp/err"
}

# judge NAME PROGRAM: that profile
judge() {
  python3 "$top_srcdir/tests/lib/lines.py" "$2" "$tmp/profile" >"$tmp/rows"
  ok "$1: the profile is read"
  while read -r kind what of value want samples; do
    case $kind in
    line) [ "$TECS_ENGINE" = agent ] || continue ;;
    function) samples=$want want=$value value=$of of= ;;
    esac
    # inferred from outside: a study had 96 % of functions right, not of each
    near "$value" "$want" "$(by_engine 0.07 0.12)" "$1: $kind $what $of" "$samples"
  done <"$tmp/rows"
}
