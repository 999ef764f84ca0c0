# shellcheck shell=bash
# The usage of the script that sources this: for --help, and for options that it does not have, before it builds or
# downloads anything. A script's usage is its first comment, or else in its variable USAGE, which it prints itself.

# print_usage [TEXT]: prints the usage of this script.
print_usage() {
  local name
  if (($#)); then
    printf '%s\n' "$1"
    return
  fi
  name=$(realpath --relative-to="$REPOSITORY_DIR" "$0")
  grep -q '^# *usage:' "$0" || printf 'usage: %s\n' "$name"
  sed -n '2,/^[^#]/{ s/^# \{0,1\}//p; }' "$0"
}

# misuse [TEXT]: prints the usage and exits with 2.
# shellcheck disable=SC2120
misuse() {
  print_usage "$@" >&2
  exit 2
}

# has_option OPTION: whether this script, or a program beside it or in lib, has an option of this name.
has_option() {
  local programs=("$(dirname "$0")"/*.py "$SCRIPTS_DIR"/lib/*.py)
  # Folders without programs leave the patterns.
  grep -qsE -- "(^|[^a-z-])$1([^a-z-]|$)" "$0" "${programs[@]}"
}

# check_options ARGUMENT...: answers --help, and refuses unknown options up to `--`.
# shellcheck disable=SC2119
check_options() {
  local argument
  for argument in "$@"; do
    case $argument in
      --) return ;;
      -h | --help) print_usage; exit 0 ;;
      --[a-z]*) has_option "${argument%%=*}" || { say "unknown option ${argument%%=*}"; misuse; } ;;
      -[a-zA-Z]*) say "unknown option $argument"; misuse ;;
    esac
  done
}
