# shellcheck shell=bash
# The release binaries and the CPU plugin, for the scripts that compare and measure.

source "$(dirname "${BASH_SOURCE[0]}")/python.sh"

TARGET_DIR=${CARGO_TARGET_DIR:-$REPOSITORY_DIR/target}
TRAIND=$TARGET_DIR/release/traind

build_traind() {
  command -v cargo > /dev/null || die "needs Rust: no 'cargo' on PATH"
  cargo build --release --locked --quiet --manifest-path "$REPOSITORY_DIR/Cargo.toml" -p traind -p traind-runner
}

prepare_binaries() {
  build_traind
  TRAIND_PYTHON=$(venv_python data) "$TRAIND" plugins install cpu
}
