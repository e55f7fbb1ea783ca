# SPDX-License-Identifier: MIT
# Sourced by the scripts beside it: packages, build, inferno.
# Everything that is made goes into $build, everything that is said to stderr.
set -eu
top=$(cd "$(dirname "$0")/.." && pwd)
build=${BUILD:-$top/build}
jobs=$(nproc 2>/dev/null || echo 2)

build_packages="gcc libc6-dev make autoconf automake libtool pkg-config
  libunwind-dev libelf-dev libdw-dev liblzma-dev libiberty-dev libzydis-dev"
test_packages="check luajit libluajit-5.1-dev binutils g++ xz-utils gdb python3
  love neovim wrk nginx python3-pip chromium"
ci_packages="clang clang-format universal-ctags"

say() {
  echo "== $*" >&2
}

die() {
  echo "$(basename "$0"): $*" >&2
  exit 1
}

case $top$build in
*[[:space:]]*) die "make and LD_PRELOAD want a path without blanks: $top" ;;
esac

as_root() {
  if [ "$(id -u)" -eq 0 ]; then
    "$@"
  elif command -v sudo >/dev/null; then
    sudo "$@"
  else
    die "not root and no sudo; run this as root: $*"
  fi
}

installed() {
  [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}

# Installs those of the packages that are missing; removes nothing, ever.
need_packages() {
  missing=
  for package in "$@"; do
    installed "$package" || missing="$missing $package"
  done
  [ -n "$missing" ] || return 0
  command -v apt-get >/dev/null ||
    die "no apt-get here; install what these Debian packages hold:$missing"
  say "installing$missing"
  as_root env DEBIAN_FRONTEND=noninteractive sh -eu -c '
    apt-get -q update
    apt-get -q install -y --no-remove --no-install-recommends "$@"' \
    apt $missing >&2
}

# Configured once, and again when the build's description has changed.
# Arguments: for configure.
build_project() {
  say "building in $build"
  cd "$top"
  if [ ! -x configure ] || [ -n "$(find configure.ac Makefile.am src/local.mk \
    tests/local.mk -newer configure)" ]; then
    autoreconf -fi >&2
    touch configure
  fi
  mkdir -p "$build"
  cd "$build"
  if [ ! -f Makefile ] || [ "$top/configure" -nt config.status ] ||
    [ "$*" != "$(cat configured 2>/dev/null)" ]; then
    "$top/configure" -q "$@" >&2
    echo "$*" >configured
  fi
  make -s -j "$jobs" >&2
  agent=$build/src/.libs/libtecs-agent.so
  tecs_attach=$build/src/tecs-attach
}

cargo_least=1.79 # for inferno and the Rust host of the tests

cargo_is_new_enough() { # path
  "$1" --version 2>/dev/null | awk -v least="$cargo_least" '{
    split($2, v, "."); split(least, w, ".")
    exit !(v[1] > w[1] || v[1] == w[1] && v[2] >= w[2]) }'
}

find_cargo() {
  for cargo in "$(command -v cargo || :)" "${CARGO_HOME:-$HOME/.cargo}/bin/cargo" \
    /usr/bin/cargo; do
    if [ -x "$cargo" ] && cargo_is_new_enough "$cargo"; then
      return 0
    fi
  done
  return 1
}

# Debian 12's cargo is too old, cargo-web is not; later releases have a newer
# cargo and no cargo-web.
need_cargo() {
  find_cargo && return 0
  need_packages gcc libc6-dev ca-certificates
  if [ -n "$(apt-cache madison cargo-web 2>/dev/null)" ]; then
    need_packages cargo-web rustc-web
  else
    need_packages cargo rustc
  fi
  find_cargo || die "cargo $cargo_least or later is needed"
}

have_inferno() {
  command -v inferno-flamegraph >/dev/null ||
    [ -x "$build/inferno/bin/inferno-flamegraph" ]
}

# inferno-flamegraph, from PATH or else installed into the build directory.
need_inferno() {
  if command -v inferno-flamegraph >/dev/null; then
    return 0
  fi
  PATH=$build/inferno/bin:$PATH
  have_inferno && return 0
  need_cargo
  say "building inferno with $cargo: minutes in which nothing is printed"
  PATH=$(dirname "$cargo"):$PATH \
    "$cargo" install inferno --locked --quiet --root "$build/inferno" >&2
}

# LuaJITs of many versions to test with; TECS_VMS says where.
need_vms() {
  need_packages python3-pip ca-certificates
  need_cargo
  say "LuaJITs of other versions, in $build/vms"
  PATH=$(dirname "$cargo"):$PATH CARGO=$cargo JOBS=$jobs \
    "$top/tests/vms/build" "$build/vms" >&2 ||
    say "not all of them can be had; tests that need those fail"
  export TECS_VMS="$build/vms"
}
