//! Faults in the calls of real programs: see `inject.c`, which is compiled here.

use std::env::consts::DLL_SUFFIX;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// In bytes: five numbers and a text.
const CONTROL_BYTES: usize = 5 * 8 + 4096;
const NEVER: i64 = i64::MAX;

/// A system call's error, by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Error {
    Io = 5,
    NoSpace = 28,
    ReadOnly = 30,
}

pub(super) struct Injector {
    control: File,
    path: PathBuf,
    library: PathBuf,
}

impl Injector {
    /// One that does nothing yet; its files are in `folder`.
    pub(super) fn new(folder: &Path) -> Injector {
        let library = folder.join(format!("inject{DLL_SUFFIX}"));
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("end_to_end/faults/inject.c");
        let mut compile = Command::new("cc");
        compile.args(["-shared", "-fPIC", "-O1", "-o"]).arg(&library).arg(source).arg("-ldl");
        assert!(compile.status().unwrap().success(), "{compile:?}");
        let path = folder.join("control");
        fs::write(&path, [0; CONTROL_BYTES]).unwrap();
        let control = File::options().read(true).write(true).open(&path).unwrap();
        let injector = Injector { control, path, library };
        injector.disarm();
        injector
    }

    /// What the programs of the names in `programs` need to be started with, so that calls below
    /// `root` can fail.
    pub(super) fn environment(&self, root: &Path, programs: &[&str]) -> Vec<(String, String)> {
        let text = |path: &Path| path.to_str().unwrap().to_owned();
        vec![
            ("LD_PRELOAD".into(), text(&self.library)),
            ("TRAIND_FAULTS".into(), text(&self.path)),
            ("TRAIND_FAULTS_ROOT".into(), text(root)),
            ("TRAIND_FAULTS_PROGRAMS".into(), format!(":{}:", programs.join(":"))),
        ]
    }

    /// Lets calls number `first` to `last`, counted from now, fail.
    pub(super) fn arm(&self, first: i64, last: i64, error: Error) {
        self.disarm();
        for (index, value) in [(0, 0), (2, last), (3, error as i64), (4, 0), (1, first)] {
            self.set(index, value);
        }
    }

    pub(super) fn disarm(&self) {
        self.set(1, NEVER);
    }

    /// How many calls there were since it was armed.
    pub(super) fn calls(&self) -> i64 {
        self.number(0)
    }

    /// The first call that failed, if one did.
    pub(super) fn failed(&self) -> Option<String> {
        let mut text = vec![0; CONTROL_BYTES - 5 * 8];
        self.control.read_exact_at(&mut text, 5 * 8).unwrap();
        text.truncate(text.iter().position(|byte| *byte == 0).unwrap());
        (self.number(4) > 0).then(|| String::from_utf8_lossy(&text).into_owned())
    }

    fn number(&self, index: u64) -> i64 {
        let mut bytes = [0; 8];
        self.control.read_exact_at(&mut bytes, index * 8).unwrap();
        i64::from_ne_bytes(bytes)
    }

    fn set(&self, index: u64, value: i64) {
        self.control.write_all_at(&value.to_ne_bytes(), index * 8).unwrap();
    }
}
