# shellcheck shell=bash
# The CUDA plugin with ptxas and libdevice, which compile programs for GPUs without one.

source "$(dirname "${BASH_SOURCE[0]}")/python.sh"

# Seconds of the fetch, where the tests can do without.
FETCH_SECONDS_MAX=180

# cuda_compiler: prints the plugin's path, fetching it if necessary.
cuda_compiler() {
  local python plugin
  python=$(venv_python gpu-programs)
  for plugin in "$(dirname "$(dirname "$python")")"/lib/python3*/site-packages/jax_plugins/xla_cuda13/xla_cuda_plugin.so; do
    printf '%s\n' "$plugin"
  done
}

# cuda_compiler_soon: the same, or nothing where it cannot be fetched in three minutes.
cuda_compiler_soon() {
  local found
  if found=$(timeout "$FETCH_SECONDS_MAX" bash -c "source '${BASH_SOURCE[0]}'; cuda_compiler"); then
    printf '%s\n' "$found"
  else
    say "the CUDA plugin cannot be fetched soon: its tests are skipped"
  fi
}
