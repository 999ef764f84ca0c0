//! A disk that is really full: a small file system of its own under the daemon's state.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use tonic::Code;
use traind_proto::reasons;
use traind_proto::v1::{Job, JobState};
use traind_tests::{Draft, Host};

use super::whole::torn;

struct SmallDisk(PathBuf);

impl SmallDisk {
    /// `None` where this user may not mount one.
    fn mount(path: PathBuf) -> Option<SmallDisk> {
        fs::create_dir(&path).unwrap();
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", "size=8m,mode=700", "traind-test"]).arg(&path);
        let mounted = mount.output().is_ok_and(|output| output.status.success());
        mounted.then_some(SmallDisk(path))
    }

    fn filler(&self) -> PathBuf {
        self.0.join("filler")
    }

    /// Leaves not a byte.
    fn fill(&self) {
        let mut filler = File::options().create(true).append(true).open(self.filler()).unwrap();
        while filler.write_all(&[0; 4096]).is_ok() {}
    }

    fn empty(&self) {
        fs::remove_file(self.filler()).unwrap();
    }

    fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Processes of the test may still be there.
        let _ = Command::new("umount").arg("--lazy").arg(&self.0).status();
    }
}

/// The disk of the output folder alone fills up while checkpoints are written.
#[tokio::test]
async fn a_disk_that_fills_up_while_saving_holds_the_job_up_and_costs_no_checkpoint() {
    let host = Host::started(1).await;
    let draft = Draft::new(&host, "job")
        .endless()
        .set("train.logging_steps", 1000)
        .set("train.save_steps", 20)
        .set("train.save_total_limit", 2);
    let Some(disk) = SmallDisk::mount(draft.path("out")) else {
        return println!("left out: this user may not mount a file system");
    };
    let running = host.create(&draft).await.unwrap();
    // Checkpoints come and go quickly; by the first step that is told there were many.
    host.until_past(&running.id, 20).await;
    // Again and again, since a checkpoint that goes makes room for another.
    let fill = |job: &Job| {
        disk.fill();
        job.state() != JobState::Running
    };
    let stopped = host.until(&running.id, fill).await;
    let torn = torn(disk.path());
    disk.empty();
    assert_eq!(torn, [""; 0]);
    assert_eq!(stopped.state(), JobState::Pending, "{stopped:?}");
    let why = &stopped.waiting_reason;
    assert!(why.starts_with("goes on after 1 s: ") && why.contains("No space left"), "{why}");

    // It goes on by itself, from what was saved before.
    let step = |job: &Job| job.progress.as_ref().map_or(0, |progress| progress.step);
    host.until(&running.id, |job| step(job) > step(&stopped)).await;
    host.cancel(&running.id).await;
    let story = host.watch(&running.id).await;
    let resumed = story.resumed();
    assert!(!resumed.is_empty(), "{:?}", story.chapters());
    assert!(story.saved().iter().any(|saved| saved.step == resumed[0].step), "{resumed:?}");
    let failure = story.endings()[0].failure.clone().unwrap();
    assert_eq!(failure.reason, reasons::DISK_FULL, "{failure:?}");
    assert!(failure.file().starts_with(draft.path("out").to_str().unwrap()), "{failure:?}");
    assert_eq!((story.job.restarts, story.job.failure), (0, None));
}

#[tokio::test]
async fn a_full_disk_refuses_jobs_and_keeps_those_it_has() {
    let mut host = Host::prepared(1);
    let Some(disk) = SmallDisk::mount(host.path("state")) else {
        return println!("left out: this user may not mount a file system");
    };
    host.start().await;
    let running = host.create(&Draft::new(&host, "running").endless()).await.unwrap();
    host.until_past(&running.id, 0).await;
    disk.fill();
    let second = Draft::new(&host, "second");
    let refused = host.create(&second).await.unwrap_err();
    assert_eq!(refused.code(), Code::Internal, "{refused:?}");
    assert!(refused.message().contains("full"), "{refused:?}");
    // The running job's next event finds no room either.
    tokio::time::sleep(Duration::from_secs(1)).await;
    disk.empty();
    host.until(&running.id, |job| job.attempt == 2 && job.state() == JobState::Running).await;
    host.cancel(&running.id).await;
    let story = host.watch(&running.id).await;
    let told = story.waiting_reasons();
    assert!(told.iter().any(|told| told.contains("No space left")), "{told:?}");
    host.complete(&second).await;
    host.kill_daemon();
    host.start().await;
    assert_eq!(host.get(&running.id).await, story.job);
    assert_eq!(torn(disk.path()), [""; 0]);
}
