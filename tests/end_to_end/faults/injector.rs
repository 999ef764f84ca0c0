//! Injects faults into system calls of the real programs, by means of `inject.c`.

use std::env::consts::DLL_SUFFIX;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The size of the control file: five integers and a text.
const CONTROL_BYTES: usize = 5 * 8 + 4096;
const NEVER: i64 = i64::MAX;

/// An error of a system call, with its `errno`.
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
    /// Makes an injector with its files in `folder` that injects nothing yet.
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

    /// The variables with which the programs named in `programs` fail calls below `root`.
    pub(super) fn environment(&self, root: &Path, programs: &[&str]) -> Vec<(String, String)> {
        let text = |path: &Path| path.to_str().unwrap().to_owned();
        vec![
            ("LD_PRELOAD".into(), text(&self.library)),
            ("TRAIND_FAULTS".into(), text(&self.path)),
            ("TRAIND_FAULTS_ROOT".into(), text(root)),
            ("TRAIND_FAULTS_PROGRAMS".into(), format!(":{}:", programs.join(":"))),
        ]
    }

    /// Makes the calls `first` to `last`, counted from now, fail.
    pub(super) fn arm(&self, first: i64, last: i64, error: Error) {
        self.disarm();
        for (index, value) in [(0, 0), (2, last), (3, error as i64), (4, 0), (1, first)] {
            self.set(index, value);
        }
    }

    pub(super) fn disarm(&self) {
        self.set(1, NEVER);
    }

    /// The number of calls since it was armed.
    pub(super) fn calls(&self) -> i64 {
        self.number(0)
    }

    /// The first call that failed, if any.
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
