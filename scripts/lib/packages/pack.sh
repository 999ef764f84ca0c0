# shellcheck shell=bash
# The parts of scripts/release: compiles for an architecture, stages the files of a package, packs them.

source "$(dirname "${BASH_SOURCE[0]}")/../python.sh"

PACKAGES_DIR=$SCRIPTS_DIR/packages
# The oldest glibc that the programs run with, as in manylinux_2_28.
GLIBC=2.28

package_version() { sed -n 's/^version = "\(.*\)"/\1/p' "$REPOSITORY_DIR/Cargo.toml" | head -n 1; }

# has_std ARCH: whether Rust's standard library for an architecture is there, or rustup can add it.
has_std() {
  local triple=$1-unknown-linux-gnu
  [[ -d $(rustc --print sysroot)/lib/rustlib/$triple ]] && return
  command -v rustup > /dev/null && rustup target add "$triple" >&2
}

# compile ARCH PROFILE TARGET_DIR: prints the folder of the programs. Zig's C compiler and linker stand for those of
# every architecture, with the symbols of the old glibc. The allocator is for the largest pages that Linux has there.
compile() {
  local triple=$1-unknown-linux-gnu tools page_bits=12
  tools=$(dirname "$(venv_python release)")
  if [[ $1 == aarch64 ]]; then page_bits=16; fi
  PATH=$tools:$PATH CARGO_TARGET_DIR=$3 JEMALLOC_SYS_WITH_LG_PAGE=$page_bits cargo-zigbuild build --profile "$2" --locked --quiet \
    --manifest-path "$REPOSITORY_DIR/Cargo.toml" --target "$triple.$GLIBC" -p traind -p traind-runner >&2
  printf '%s\n' "$3/$triple/$2"
}

# stage PROGRAMS TRAIND ROOT: lays out the files of the packages below ROOT. TRAIND runs on this machine; it writes the
# man pages and the completions.
stage() {
  local programs=$1 traind=$2 root=$3 example
  install -D --mode 755 --target-directory "$root/usr/bin" "$programs/traind" "$programs/traind-runner"
  install -D --mode 644 "$SCRIPTS_DIR/systemd/traind.service" "$root/usr/lib/systemd/system/traind.service"
  install -D --mode 644 "$SCRIPTS_DIR/systemd/traind.sysusers" "$root/usr/lib/sysusers.d/traind.conf"
  install -D --mode 644 "$PACKAGES_DIR/default" "$root/etc/default/traind"
  "$traind" manual "$root/usr/share/man/man1"
  gzip --best --no-name "$root"/usr/share/man/man1/*.1
  complete_with bash "$root/usr/share/bash-completion/completions/traind"
  complete_with zsh "$root/usr/share/zsh/site-functions/_traind"
  complete_with fish "$root/usr/share/fish/vendor_completions.d/traind.fish"
  local doc=$root/usr/share/doc/traind
  install -D --mode 644 --target-directory "$doc" "$REPOSITORY_DIR"/{README,CHANGELOG}.md "$REPOSITORY_DIR/LICENSE" \
    "$SCRIPTS_DIR"/systemd/{access.yaml,run-as-submitter.conf}
  for example in "$REPOSITORY_DIR"/docs/examples/*.yaml; do
    install -D --mode 644 "$example" "$doc/examples/$(basename "$example")"
  done
  chmod -R u=rwX,go=rX "$root"
}

complete_with() {
  mkdir -p "$(dirname "$2")"
  "$traind" completions "$1" > "$2"
}

# make_deb ROOT ARCH OUT: packs the staged files for Debian and Ubuntu.
make_deb() {
  local root=$1 out=$3 debian architecture
  architecture=$(deb_arch "$2")
  debian=$root.deb
  mkdir -p "$debian/DEBIAN"
  cp -a "$root/." "$debian"
  mv "$debian/usr/share/doc/traind/LICENSE" "$debian/usr/share/doc/traind/copyright"
  mv "$debian/usr/share/zsh/site-functions" "$debian/usr/share/zsh/vendor-completions"
  cat > "$debian/DEBIAN/control" << CONTROL
Package: traind
Version: $(package_version)
Architecture: $architecture
Maintainer: The traind authors
Installed-Size: $(du --summarize --block-size 1K "$root" | cut -f 1)
Depends: libc6 (>= $GLIBC)
Recommends: ca-certificates, python3-pip, libstdc++6
Section: science
Priority: optional
Description: training daemon for Hugging Face models
 Fine-tunes and pre-trains models on NeuronCores, NVIDIA GPUs and CPUs. A daemon
 schedules jobs that users submit from the command line or over gRPC.
CONTROL
  echo /etc/default/traind > "$debian/DEBIAN/conffiles"
  install --mode 755 --target-directory "$debian/DEBIAN" "$PACKAGES_DIR"/{postinst,prerm}
  dpkg-deb --build --root-owner-group "$debian" "$out/traind_$(package_version)_$architecture.deb" > /dev/null
}

deb_arch() {
  case $1 in
    x86_64) echo amd64 ;;
    aarch64) echo arm64 ;;
    *) die "no packages for '$1'" ;;
  esac
}

# make_rpm ROOT ARCH OUT: packs the staged files for Fedora, Amazon Linux and others.
make_rpm() {
  local top=$1.rpm
  rpmbuild -bb --quiet --target "$2" --define "_topdir $top" --define "_rpmdir $top" --define "staged $1" \
    --define "scripts $PACKAGES_DIR" --define "version $(package_version)" --define "_prefix /usr" \
    "$PACKAGES_DIR/traind.spec" >&2 || die "rpmbuild failed"
  find "$top" -type f -name '*.rpm' -exec mv --target-directory "$3" {} +
}

# make_wheel ROOT ARCH OUT: packs the Python client and the programs.
make_wheel() {
  local python scratch=$1.wheel
  python=$(venv_python release)
  "$python" "$PACKAGES_DIR/build_wheel.py" "$REPOSITORY_DIR" "$1/usr/bin" "$scratch" "manylinux_${GLIBC/./_}_$2" "$3" >&2
}

# add_checksums FOLDER [SSH_KEY [MINISIGN_KEY]]: writes SHA256SUMS of the folder's files, and its signatures by the keys
# that are given.
add_checksums() {
  local folder=$1 ssh_key=${2-} minisign_key=${3-} sums
  rm -f "$folder"/SHA256SUMS{,.sig,.minisig}
  sums=$(cd "$folder" && sha256sum -- *)
  printf '%s\n' "$sums" > "$folder/SHA256SUMS"
  [[ -n $ssh_key$minisign_key ]] || say "not signed (--sign KEY, --minisign KEY)"
  if [[ -n $minisign_key ]]; then
    "$(venv_python signing)" "$PACKAGES_DIR/sign.py" "$minisign_key" "$folder/SHA256SUMS"
  fi
  if [[ -n $ssh_key ]]; then ssh-keygen -q -Y sign -f "$ssh_key" -n traind "$folder/SHA256SUMS"; fi
}
