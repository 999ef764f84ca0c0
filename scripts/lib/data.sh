# shellcheck shell=bash
# Labelled text for the quickstart, the comparisons and the benchmarks: made once and kept in the cache folder.

source "$(dirname "${BASH_SOURCE[0]}")/python.sh"

# section_data TRAIN_ROWS VALIDATION_ROWS: prints a folder with train.parquet, validation.csv and labels.json.
section_data() {
  local python folder=$CACHE_DIR/data/sections-1-$1-$2
  python=$(venv_python data)
  with_lock data make_section_data "$python" "$folder" "$1" "$2"
  printf '%s\n' "$folder"
}

make_section_data() {
  local python=$1 folder=$2 part=$2.part
  [[ -d $folder ]] && return
  rm -rf "$part"
  mkdir -p "$part"
  "$python" "$SCRIPTS_DIR/lib/corpora/make_dataset.py" "$part" "$3" "$4" --apt-folder "$CACHE_DIR/apt"
  mv "$part" "$folder"
}
