# shellcheck shell=bash
# A daemon with cores of the twin of AWS Neuron (xla-backend/twin), for scripts that run jobs on it.

source "$(dirname "${BASH_SOURCE[0]}")/binaries.sh"

TWIN_BUILD=${TRAIND_TWIN_BIN_DIR:-$TARGET_DIR/debug}
TWIN_TRAIND=$TWIN_BUILD/traind

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
  export TRAIND_PLUGIN_NEURON=$TWIN_BUILD/libtraind_twin.so TRAIND_CACHE_DIR=$1/cache TRAIND_SOCKET=$1/traind.sock
  "$TWIN_BUILD/neuron-twin" sysfs "$1/sysfs"
  "$TWIN_BUILD/neuron-twin" packages "$1"
}

# start_twin OPTIONS: starts the daemon, which ends with this script.
start_twin() {
  local folder
  folder=$(mktemp -d)
  twin_environment "$folder" "$1"
  "$TWIN_TRAIND" serve --platform neuron --state-dir "$folder/state" --neuron-sysfs "$folder/sysfs" \
    --neuron-tools "$folder/bin" --neuron-driver "$folder/sysfs/version" 2> "$folder/daemon.log" &
  # shellcheck disable=SC2064
  trap "kill $! 2> /dev/null || true; wait $! 2> /dev/null || true; rm -rf '$folder'" EXIT
  until [[ -S $TRAIND_SOCKET ]]; do
    kill -0 $! 2> /dev/null || die "the daemon did not start: $(cat "$folder/daemon.log")"
    sleep 0.02
  done
}
