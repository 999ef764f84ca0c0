# shellcheck shell=bash
# A private daemon in a scratch folder, for scripts that run one job. It ends with the script.

source "$(dirname "${BASH_SOURCE[0]}")/binaries.sh"

CHILD=      # the process the script waits for
DAEMON=     # the daemon's process
SCRATCH=    # its socket, state and log

# run COMMAND...: runs the command in its own process group. A signal to the script is handled at once, because bash
# defers traps only for foreground commands, and ends all processes of the group; Ctrl-C reaches the script alone.
run() {
  set -m
  "$@" &
  CHILD=$!
  set +m
  local status=0
  wait "$CHILD" || status=$?
  CHILD=
  return "$status"
}

start_daemon() {
  SCRATCH=$(mktemp -d "${TMPDIR:-/tmp}/traind.XXXXXX")
  export TRAIND_SOCKET=$SCRATCH/socket
  set -m
  "$TRAIND" serve --socket "$TRAIND_SOCKET" --state-dir "$SCRATCH/state" > "$SCRATCH/daemon.log" 2>&1 &
  DAEMON=$!
  set +m
  for _ in {1..100}; do
    "$TRAIND" ls > /dev/null 2>&1 && return
    kill -0 "$DAEMON" 2> /dev/null || break
    sleep 0.1
  done
  cat "$SCRATCH/daemon.log" >&2
  die "the daemon did not start"
}

# Ends the processes that the script started, in an order in which each can exit cleanly. Runners outlive a daemon by
# design; their command lines contain their run folder, which belongs to this script.
stop_everything() {
  trap '' INT TERM HUP
  if [[ -n $CHILD ]]; then end "$CHILD"; fi
  end_runners
  if [[ -n $DAEMON ]]; then end "$DAEMON"; fi
  end_runners # started in the meantime
  CHILD='' DAEMON=''
}

end_runners() {
  [[ -n $SCRATCH ]] || return 0
  local runner
  for runner in $(runners); do end "$runner"; done
}

# Prints the process ids of this daemon's runners.
runners() {
  local process
  for process in /proc/[0-9]*; do
    if tr '\0' '\n' 2> /dev/null < "$process/cmdline" | grep -qF "$SCRATCH/state/"; then
      [[ ${process#/proc/} == "$DAEMON" ]] || printf '%s\n' "${process#/proc/}"
    fi
  done
}

# end PID: sends SIGTERM to a process group, and SIGKILL after ten seconds.
end() {
  kill -TERM -- "-$1" 2> /dev/null || return 0
  for _ in {1..100}; do
    if ! kill -0 -- "-$1" 2> /dev/null; then return 0; fi
    sleep 0.1
  done
  kill -KILL -- "-$1" 2> /dev/null || true
}
