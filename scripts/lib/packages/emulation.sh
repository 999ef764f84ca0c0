# shellcheck shell=bash
# Runs programs for arm64 on a Debian or Ubuntu machine of another architecture: QEMU's user emulation, with the
# libraries of C and C++ from Debian's packages for arm64. Nothing is installed; both are unpacked into the cache folder.

source "$(dirname "${BASH_SOURCE[0]}")/../cache.sh"

ARM64_ROOT=$CACHE_DIR/debian/arm64
ARM64_EMULATOR=usr/bin/qemu-aarch64-static

# has_arm64: whether programs for arm64 can run here, after fetching what they need.
has_arm64() { with_lock debian-arm64 fetch_arm64 >&2; }

# arm64 PROGRAM ARGUMENT...
arm64() { "$ARM64_ROOT/$ARM64_EMULATOR" -L "$ARM64_ROOT" "$@"; }

fetch_arm64() {
  [[ -d $ARM64_ROOT ]] && return
  command -v apt-get > /dev/null && command -v dpkg-deb > /dev/null || return 1
  local part=$ARM64_ROOT.part package
  rm -rf "$part"
  mkdir -p "$part/lists/partial" "$part/root"
  (cd "$part" && apt_for_arm64 "$part" update && apt_for_arm64 "$part" download libc6 libgcc-s1 libstdc++6) || return 1
  for package in "$part"/*_arm64.deb; do dpkg-deb --extract "$package" "$part/root" || return 1; done
  (cd "$part" && apt-get download --quiet --quiet qemu-user-static) || return 1
  dpkg-deb --fsys-tarfile "$part"/qemu-user-static_*.deb | tar --extract --directory "$part/root" "./$ARM64_EMULATOR" \
    || return 1
  mv "$part/root" "$ARM64_ROOT"
  rm -rf "$part"
}

# apt_for_arm64 FOLDER ARGUMENT...: reads an index of its own, so that the machine's stays as it is.
apt_for_arm64() {
  local folder=$1
  shift
  apt-get --quiet --quiet \
    --option APT::Architecture=arm64 --option APT::Architectures=arm64 --option APT::Sandbox::User= \
    --option Dir::State::lists="$folder/lists" --option Dir::State::status=/dev/null \
    --option Dir::Cache::pkgcache= --option Dir::Cache::srcpkgcache= \
    --option Acquire::Languages=none --option Debug::NoLocking=1 "$@"
}
