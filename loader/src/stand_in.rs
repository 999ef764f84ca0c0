//! Files that stand in the place of others: pointers of Git LFS, and pages of a server in the place of a download.

use std::fs::File;
use std::io::Read;
use std::path::Path;

/// The beginning of a pointer, in lower case, which `git clone` leaves where Git LFS is not installed.
const POINTER: &str = "version https://git-lfs.github.com/spec/";
/// The beginnings of pages, in lower case.
const PAGES: [&str; 2] = ["<!doctype html", "<html"];
/// The bytes that are looked at.
const BYTES: usize = 64;

/// Says what stands in the place of a file by its first bytes; `None` where they may be its own, or cannot be read.
pub fn stand_in(path: &Path) -> Option<&'static str> {
    let mut bytes = Vec::new();
    File::open(path).ok()?.take(BYTES as u64).read_to_end(&mut bytes).ok()?;
    stand_in_of(&bytes)
}

/// Says what bytes are that stand in the place of a file's own; `None` where they may be these.
pub(crate) fn stand_in_of(bytes: &[u8]) -> Option<&'static str> {
    let beginning = String::from_utf8_lossy(&bytes[..bytes.len().min(BYTES)]);
    let beginning = beginning.trim_start_matches('\u{feff}').trim_start().to_lowercase();
    if beginning.starts_with(POINTER) {
        return Some(
            "it is a pointer of Git LFS, in place of the file that `git lfs pull` fetches",
        );
    }
    let is_page = PAGES.iter().any(|begin| beginning.starts_with(begin));
    is_page.then_some(
        "it is a page of HTML, which a server sends in place of a file: download it again",
    )
}
