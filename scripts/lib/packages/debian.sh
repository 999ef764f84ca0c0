# shellcheck shell=bash
# Programs from Debian packages: the installed ones, or unpacked into the cache folder.

source "$(dirname "${BASH_SOURCE[0]}")/../cache.sh"

# debian_program PACKAGE PROGRAM: prints the program's path, or nothing if it is not available.
debian_program() {
  local package=$1 program=$2 folder=$CACHE_DIR/debian/$1
  if command -v "$program"; then return; fi
  with_lock "debian-$package" fetch_debian "$package" "$folder" >&2 || return 0
  if [[ -x $folder/usr/bin/$program ]]; then printf '%s\n' "$folder/usr/bin/$program"; fi
}

# Needs no root: the package is unpacked under another name and renamed, not installed.
fetch_debian() {
  local package=$1 folder=$2
  [[ -d $folder ]] && return
  command -v apt-get > /dev/null && command -v dpkg-deb > /dev/null || return 1
  rm -rf "$folder.part"
  mkdir -p "$folder.part"
  (cd "$folder.part" && apt-get download --quiet --quiet "$package") || return 1
  dpkg-deb --extract "$folder.part"/*.deb "$folder.part" || return 1
  rm "$folder.part"/*.deb
  mv "$folder.part" "$folder"
}
