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

# needs_value OPTION [VALUE]...: refuses an option without a value, with the usage.
needs_value() {
  [[ -z ${2-} ]] || return 0
  say "$1 needs a value"
  misuse ${USAGE:+"$USAGE"}
}

# has_option OPTION: whether this script, or a program beside it or in lib, has an option of this name.
has_option() {
  local programs=("$(dirname "$0")"/*.py "$SCRIPTS_DIR"/lib/*.py)
  # Folders without programs leave the patterns.
  grep -qsE -- "(^|[^a-z-])$1([^a-z-]|$)" "$0" "${programs[@]}"
}

# usage_text: the usage of this script from its first example on, in one line.
usage_text() { print_usage | sed -n '/usage:/,$p' | tr '\n' ' '; }

# takes_value OPTION: whether the usage shows a value behind this option, such as N or one|other.
takes_value() { usage_text | grep -qE -- "$1 ([A-Z<]|[a-z0-9-]+\|)"; }

# takes_arguments: whether the usage shows arguments that are no options, or options with several values. Parentheses
# are remarks.
takes_arguments() {
  local text
  text=$(usage_text | sed -E 's/\([^)]*\)//g')
  grep -qE '[A-Z]\.\.\.|\[\.\.\.\]' <<< "$text" && return
  sed -E 's/--[a-z-]+( [A-Z<][^] ]*| [a-z0-9-]+\|[^] ]*)?//g' <<< "$text" | grep -qE '[A-Z]{2}'
}

# check_options ARGUMENT...: answers --help, and refuses unknown options up to `--`, options without their value, and
# arguments where the script takes none.
# shellcheck disable=SC2119
check_options() {
  local argument
  while (($#)); do
    argument=$1
    shift
    case $argument in
      --) return ;;
      -h | --help) print_usage; exit 0 ;;
      --[a-z]*=*) has_option "${argument%%=*}" || refuse "unknown option ${argument%%=*}" ;;
      --[a-z]*)
        has_option "$argument" || refuse "unknown option $argument"
        if takes_value "$argument"; then
          [[ $# -gt 0 && $1 != --* ]] || refuse "$argument needs a value"
          shift
        fi ;;
      -[a-zA-Z]*) refuse "unknown option $argument" ;;
      *) takes_arguments || refuse "unexpected argument $argument" ;;
    esac
  done
}

# refuse PROBLEM: says what is wrong, prints the usage and exits with 2.
# shellcheck disable=SC2119
refuse() {
  say "$1"
  misuse
}
