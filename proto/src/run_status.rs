//! Two files of a run directory, by which a daemon on another host follows the run: the status of the run's hosts,
//! which the first host's runner writes, and a request to stop, which the daemon writes.

use std::fs;
use std::io::{self, Read};
use std::path::Path;

use prost::Message as _;

use crate::v1::RunStatus;

/// Name of the file in a run directory.
pub const RUN_STATUS_FILE: &str = "hosts.status";
/// Name of the file that asks a run to stop: its text is [`CANCEL`] or [`INTERRUPT`].
pub const STOP_FILE: &str = "stop";
/// Stop without a checkpoint.
pub const CANCEL: &str = "cancel";
/// Save a checkpoint and stop.
pub const INTERRUPT: &str = "interrupt";
/// Larger files are not read. Thousands of hosts need less.
const BYTES_MAX: u64 = 16 << 20;

/// Replaces the file in `run_dir`. It is not synced, since a status is of no use after a crash.
pub fn write(run_dir: &Path, status: &RunStatus) -> io::Result<()> {
    let new = run_dir.join(format!("{RUN_STATUS_FILE}.new"));
    fs::write(&new, status.encode_to_vec())?;
    fs::rename(&new, run_dir.join(RUN_STATUS_FILE))
}

/// Reads the contents of the file.
pub fn read(file: impl Read) -> io::Result<RunStatus> {
    let mut bytes = Vec::new();
    file.take(BYTES_MAX).read_to_end(&mut bytes)?;
    RunStatus::decode(bytes.as_slice())
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::v1::HostStatus;

    #[test]
    fn a_status_is_read_as_it_was_written() {
        let folder = tempfile::tempdir().unwrap();
        let host = HostStatus { rank: 1, host: "n1".into(), cores: vec![0, 1], usage: Vec::new() };
        for number in 1..3 {
            let status = RunStatus { number, attempt: 1, hosts: vec![host.clone()] };
            write(folder.path(), &status).unwrap();
            let file = fs::File::open(folder.path().join(RUN_STATUS_FILE)).unwrap();
            assert_eq!(read(file).unwrap(), status);
        }
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        assert!(read(&b"no status"[..]).is_err());
    }
}
