# shellcheck shell=bash
# Virtual environments with pinned packages, made once and kept in the cache folder.

source "$(dirname "${BASH_SOURCE[0]}")/cache.sh"

PYTHON=${PYTHON:-python3}

require_python() {
  command -v "$PYTHON" > /dev/null || die "needs Python 3.10 or newer with venv and pip: no '$PYTHON' on PATH"
  "$PYTHON" -c 'import sys; sys.exit(sys.version_info < (3, 10))' \
    || die "needs Python 3.10 or newer: '$PYTHON' is $("$PYTHON" -V 2>&1)"
  "$PYTHON" -c 'import venv, ensurepip' 2> /dev/null \
    || die "Python's venv module is missing: install it (Debian, Ubuntu: apt-get install python3-venv)"
}

# venv_python NAME: prints the interpreter of the environment for requirements/NAME.txt, making it if necessary.
# The folder's name has a hash of the pinned versions and the interpreter, so that a change makes a new one.
venv_python() {
  local name=$1
  local requirements=$SCRIPTS_DIR/lib/requirements/$name.txt
  require_python
  local key folder
  key=$({ "$PYTHON" -VV; cat "$requirements"; } | sha256sum | cut -c1-12)
  folder=$CACHE_DIR/venvs/$name-$key
  with_lock "venv-$name" make_venv "$folder" "$requirements"
  printf '%s\n' "$folder/bin/python"
}

make_venv() {
  local folder=$1 requirements=$2
  [[ -e $folder/.complete ]] && return
  say "making a Python environment in $folder"
  rm -rf "$folder"
  "$PYTHON" -m venv "$folder"
  "$folder/bin/python" -m pip install --quiet --requirement "$requirements" \
    || die "pip could not install $requirements"
  touch "$folder/.complete"
}

# peers_python: PyTorch and transformers, large; TRAIND_PEERS_PYTHON names an environment that already has them.
peers_python() { printf '%s\n' "${TRAIND_PEERS_PYTHON:-$(venv_python peers)}"; }

# adapters_python: PEFT and TRL beside them; TRAIND_ADAPTERS_PYTHON names an environment that already has them.
adapters_python() { printf '%s\n' "${TRAIND_ADAPTERS_PYTHON:-$(venv_python adapters)}"; }

# jax_python: TRAIND_JAX_PYTHON names an environment that already has JAX.
jax_python() { printf '%s\n' "${TRAIND_JAX_PYTHON:-$(venv_python jax)}"; }
