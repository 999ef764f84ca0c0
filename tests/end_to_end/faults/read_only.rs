//! A file system that the kernel makes read-only under the daemon's state, as after an unrecoverable
//! error.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use tonic::Code;
use traind_proto::v1::JobState;
use traind_tests::{Draft, Host, until};

use super::MESSAGES;
use super::whole::torn;

const IMAGE_BYTES: u64 = 64 * 1024 * 1024;

/// A file system in a file.
struct Disk {
    image: PathBuf,
    path: PathBuf,
}

fn done(program: &str, arguments: &[&str], path: &[&Path]) -> bool {
    let mut command = Command::new(program);
    let output = command.args(arguments).args(path).output();
    output.is_ok_and(|output| output.status.success())
}

impl Disk {
    /// `None` if this user may not mount one.
    fn mount(folder: &Path) -> Option<Disk> {
        let disk = Disk { image: folder.join("image"), path: folder.join("state") };
        fs::create_dir(&disk.path).unwrap();
        File::create(&disk.image).unwrap().set_len(IMAGE_BYTES).unwrap();
        let made = done("mkfs.ext4", &["-q"], &[&disk.image]);
        (made && disk.attach()).then_some(disk)
    }

    fn attach(&self) -> bool {
        done("mount", &["-o", "loop"], &[&self.image, &self.path])
    }

    /// Makes the kernel refuse further writes, also to open files.
    fn give_up(&self) -> bool {
        done("mount", &["-o", "remount,abort"], &[&self.path])
    }

    /// Unmounts and mounts again, as a reboot does. Unsynced writes are lost.
    async fn repair(&self) {
        let unmounted = || done("umount", &[], &[&self.path]);
        until("the disk is not in use", unmounted).await;
        assert!(self.attach());
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // Processes of the test may still use it.
        done("umount", &["--lazy"], &[&self.path]);
    }
}

#[tokio::test]
async fn no_job_is_lost_to_a_disk_that_becomes_read_only() {
    let mut host = Host::prepared(1);
    let Some(disk) = Disk::mount(&host.path("")) else {
        return println!("skipped: this user may not mount a file system");
    };
    host.start().await;
    let running = Draft::new(&host, "running")
        .endless()
        .set("train.save_steps", 50)
        .set("train.save_total_limit", 1);
    let running = host.create(&running.set("resources.max_restarts", 1)).await.unwrap();
    let waiting = host.create(&Draft::new(&host, "waiting").set("train.max_steps", 2)).await;
    let waiting = waiting.unwrap();
    host.until_past(&running.id, 2).await;
    if !disk.give_up() {
        return println!("skipped: this kernel cannot abort a file system");
    }

    let third = Draft::new(&host, "third");
    let refused = host.create(&third).await.unwrap_err();
    assert_eq!(refused.code(), Code::Internal);
    assert!(MESSAGES.iter().any(|words| refused.message().contains(words)), "{refused:?}");
    assert_eq!(host.get(&waiting.id).await.state(), JobState::Pending, "the daemon still answers");
    host.kill_all();
    disk.repair().await;

    host.start().await;
    let again = host.until(&running.id, |job| job.restarts == 1).await;
    assert_eq!(again.failure, None);
    host.until(&running.id, |job| job.state() == JobState::Running).await;
    host.cancel(&running.id).await;
    assert_eq!(host.watch(&waiting.id).await.job.state(), JobState::Completed);
    host.complete(&third).await;
    assert_eq!(torn(&disk.path), [""; 0]);
}
