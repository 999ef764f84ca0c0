# shellcheck shell=bash disable=SC2034
# The cache folder of the scripts, which is traind's own.

set -euo pipefail
shopt -s inherit_errexit

SCRIPTS_DIR=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
REPOSITORY_DIR=$(dirname "$SCRIPTS_DIR")
CACHE_DIR=${TRAIND_CACHE_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/traind}

say() { printf '%s\n' "$*" >&2; }
heading() { printf '\n== %s\n' "$*" >&2; }
die() { say "${0##*/}: $*"; exit 1; }

# Scripts with a variable USAGE read their options themselves.
# shellcheck source=usage.sh
source "$SCRIPTS_DIR/lib/usage.sh"
if [[ $(realpath "$0") == "$SCRIPTS_DIR"/* ]] && ! grep -q '^USAGE=' "$0"; then check_options "$@"; fi

# with_lock NAME COMMAND...: runs the command under a lock that all processes with this cache folder share.
with_lock() {
  local lock=$CACHE_DIR/locks/$1
  shift
  mkdir -p "$CACHE_DIR/locks"
  if command -v flock > /dev/null; then
    (flock 9; "$@") 9> "$lock"
  else
    "$@"
  fi
}
