# shellcheck shell=bash
# A daemon with cores of the twin of AWS Neuron (xla-backend/twin), for scripts that run jobs on it.

source "$(dirname "${BASH_SOURCE[0]}")/binaries.sh"

TWIN_BUILD=${TRAIND_TWIN_BIN_DIR:-$TARGET_DIR/debug}
TWIN_TRAIND=$TWIN_BUILD/traind
# For the usages of scripts.
# shellcheck disable=SC2034
TWIN_OPTIONS="--instance NAME is short for --option instance=NAME. Options of the twin, with their defaults:
$(cat "$REPOSITORY_DIR/xla-backend/twin/options.txt")"

# wrong MESSAGE: refuses the call of a script.
wrong() {
  say "$1"
  misuse "$USAGE"
}

# check_twin_option NAME=VALUE: refuses an option that the twin does not have, before anything is built.
check_twin_option() {
  [[ $1 == *=* ]] || wrong "--option needs NAME=VALUE, not '$1'"
  grep -q "^${1%%=*}=" "$REPOSITORY_DIR/xla-backend/twin/options.txt" || wrong "the twin has no option ${1%%=*}"
}

# build_twin: the programs and the twin's plugin, unoptimized as the tests use them, and the CPU plugin. Those in
# TRAIND_TWIN_BIN_DIR and TRAIND_PLUGIN_CPU are taken as they are.
build_twin() {
  if [[ -z ${TRAIND_TWIN_BIN_DIR-} ]]; then
    command -v cargo > /dev/null || die "needs Rust: no 'cargo' on PATH"
    say "Building traind and the twin: minutes at the first time"
    cargo build --locked --manifest-path "$REPOSITORY_DIR/Cargo.toml" -p traind -p traind-runner -p traind-twin >&2
  fi
  [[ -n ${TRAIND_PLUGIN_CPU-} ]] || "$TWIN_TRAIND" plugins install cpu >&2
}

# installed_cpu_plugin: prints where `traind plugins install cpu` puts the plugin.
installed_cpu_plugin() {
  echo "${TRAIND_CACHE_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/traind}"/plugins/cpu-*/xla_cpu_pjrt.so
}

# twin_environment FOLDER OPTIONS: exports what the twin needs, and makes its tools in FOLDER.
twin_environment() {
  local tool
  mkdir -p "$1/bin"
  for tool in neuronx-cc neuron-ls neuron-monitor; do
    ln -sf "$TWIN_BUILD/neuron-twin" "$1/bin/$tool"
  done
  TRAIND_TWIN_PLUGIN=${TRAIND_PLUGIN_CPU:-$(installed_cpu_plugin)}
  export TRAIND_TWIN_PLUGIN PATH="$1/bin:$PATH" TRAIND_TWIN_LOCKS=$1/locks TRAIND_TWIN_OPTIONS=$2
  export TRAIND_CACHE_DIR=$1/cache TRAIND_SOCKET=$1/traind.sock
  "$TWIN_BUILD/neuron-twin" sysfs "$1/sysfs"
  "$TWIN_BUILD/neuron-twin" packages "$1"
  twin_host "$1"
}

# twin_host FOLDER: puts the plugin where its package has it, and shows `traind doctor` the twin's driver, device nodes
# and libraries.
twin_host() {
  local package=$1/lib/python3.11/site-packages/libneuronxla host=$1/host device
  mkdir -p "$package" "$host/dev" "$host/opt/aws/neuron" "$host/sys/module/neuron" "$host/sys/devices/virtual"
  ln -sf "$TWIN_BUILD/libtraind_twin.so" "$package/libneuronpjrt.so"
  ln -sfn "$1/lib" "$host/opt/aws/neuron/lib"
  ln -sf "$1/sysfs/version" "$host/sys/module/neuron/version"
  ln -sfn "$1/sysfs" "$host/sys/devices/virtual/neuron_device"
  for device in "$1"/sysfs/neuron*; do
    : > "$host/dev/${device##*/}"
  done
  export TRAIND_PLUGIN_NEURON=$package/libneuronpjrt.so TRAIND_HOST_ROOT=$host
}

# start_twin OPTIONS: starts the daemon in TWIN_FOLDER, which ends with this script.
start_twin() {
  TRAIND_TWIN_OPTIONS=$1 "$TWIN_BUILD/neuron-twin" check || exit 2
  TWIN_FOLDER=$(mktemp -d)
  twin_environment "$TWIN_FOLDER" "$1"
  ln -s "$TWIN_TRAIND" "$TWIN_FOLDER/bin/traind"
  # Jobs end with the folder that they write to.
  cat > "$TWIN_FOLDER/bin/serve-twin" << END
#!/bin/sh
echo \$\$ > '$TWIN_FOLDER/daemon'
exec '$TWIN_TRAIND' serve --platform neuron --state-dir '$TWIN_FOLDER/state' --neuron-sysfs '$TWIN_FOLDER/sysfs' \\
  --neuron-tools '$TWIN_FOLDER/bin' --neuron-driver '$TWIN_FOLDER/sysfs/version' \\
  --on-sigterm drain --grace-period 5 "\$@" 2>> '$TWIN_FOLDER/daemon.log'
END
  chmod +x "$TWIN_FOLDER/bin/serve-twin"
  trap stop_twin EXIT
  serve_twin || die "the daemon did not start: $(cat "$TWIN_FOLDER/daemon.log")"
}

# serve_twin: starts the daemon, and waits until it can be called.
serve_twin() {
  "$TWIN_FOLDER/bin/serve-twin" &
  until [[ -S $TRAIND_SOCKET ]]; do
    kill -0 $! 2> /dev/null || return 1
    sleep 0.02
  done
}

# twin_daemon: prints the process of the daemon, if it lives.
twin_daemon() {
  local pid
  pid=$(cat "$TWIN_FOLDER/daemon" 2> /dev/null) || return 1
  [[ /proc/$pid/exe -ef $TWIN_TRAIND ]] && echo "$pid"
}

# stop_twin: ends jobs and daemon, which is started again if it was killed: it adopts the jobs that it has left.
stop_twin() {
  local pid
  twin_daemon > /dev/null || { rm -f "$TRAIND_SOCKET"; serve_twin; } || true
  if pid=$(twin_daemon); then
    kill "$pid"
    while twin_daemon > /dev/null; do sleep 0.02; done
  fi
  rm -rf "$TWIN_FOLDER"
}
