# shellcheck shell=bash
# Manual pages of Debian packages, unpacked into the cache folder.

source "$(dirname "${BASH_SOURCE[0]}")/../python.sh"
source "$(dirname "${BASH_SOURCE[0]}")/../packages/debian.sh"

MANUALS=(coreutils git-man libssl-doc libx11-doc manpages manpages-dev ncurses-doc perl-doc systemd util-linux)

# manual_folders PYTHON: prints the folder of each package, fetching it if necessary.
manual_folders() {
  local index package folder
  index=$("$1" "$SCRIPTS_DIR/lib/corpora/package_index.py" "$CACHE_DIR/apt")
  if [[ -n $index ]]; then export APT_CONFIG=$index; fi
  for package in "${MANUALS[@]}"; do
    folder=$CACHE_DIR/debian/$package
    with_lock "debian-$package" fetch_debian "$package" "$folder" || die "apt-get cannot download $package"
    printf '%s\n' "$folder"
  done
}
