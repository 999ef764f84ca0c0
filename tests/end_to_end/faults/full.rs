//! Full disks, as small file systems under the daemon's state or a job's output.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use tonic::Code;
use traind_proto::reasons;
use traind_proto::v1::{Job, JobState};
use traind_tests::{Draft, Host, until};

use super::whole::torn;

struct SmallDisk(PathBuf);

impl SmallDisk {
    /// `None` if this user may not mount one.
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

    /// Fills the disk to the last byte.
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
        // Processes of the test may still use it.
        let _ = Command::new("umount").arg("--lazy").arg(&self.0).status();
    }
}

/// The disk of the output folder alone fills up while checkpoints are written.
#[tokio::test]
async fn a_disk_that_fills_up_while_saving_delays_the_job_and_keeps_its_checkpoints() {
    let host = Host::started(1).await;
    let draft = Draft::new(&host, "job")
        .endless()
        .set("train.logging_steps", 1000)
        .set("train.save_steps", 20)
        .set("train.save_total_limit", 2);
    let Some(disk) = SmallDisk::mount(draft.path("out")) else {
        return println!("skipped: this user may not mount a file system");
    };
    let gate = host.gate("job", 50);
    let running = host.create(&draft).await.unwrap();
    host.until_at(&running.id, &gate).await;
    let saved = draft.path("out/checkpoint-40/manifest.json");
    until("a checkpoint is saved", || saved.exists()).await;
    disk.fill();
    gate.open();
    // Repeatedly, because each removed checkpoint makes room.
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
    assert!(why.starts_with("will resume after 1 s: ") && why.contains("No space left"), "{why}");

    // It resumes by itself from its newest checkpoint.
    let step = |job: &Job| job.progress.as_ref().map_or(0, |progress| progress.step);
    host.until(&running.id, |job| step(job) > step(&stopped)).await;
    host.cancel(&running.id).await;
    let history = host.watch(&running.id).await;
    let resumed = history.resumed();
    assert!(!resumed.is_empty(), "{:?}", history.event_names());
    assert!(history.saved().iter().any(|saved| saved.step == resumed[0].step), "{resumed:?}");
    let failure = history.all_finished()[0].failure.clone().unwrap();
    assert_eq!(failure.reason, reasons::DISK_FULL, "{failure:?}");
    assert!(failure.file().starts_with(draft.path("out").to_str().unwrap()), "{failure:?}");
    assert_eq!((history.job.restarts, history.job.failure), (0, None));
}

/// Waits until the runner failed to append an event: it cuts the partial event off again, which
/// changes the log's time and not its length.
async fn until_rolled_back(log: &Path) {
    let look = || fs::metadata(log).map(|found| (found.len(), found.modified().unwrap())).unwrap();
    let mut last = look();
    until("an event is cut off", || {
        let now = look();
        let rolled_back = now.0 == last.0 && now.1 != last.1;
        last = now;
        rolled_back
    })
    .await;
}

#[tokio::test]
async fn a_daemon_with_a_full_disk_refuses_jobs_and_loses_none() {
    let mut host = Host::prepared(1);
    let Some(disk) = SmallDisk::mount(host.path("state")) else {
        return println!("skipped: this user may not mount a file system");
    };
    host.start().await;
    let gate = host.gate("running", 5);
    let running = host.create(&Draft::new(&host, "running").endless()).await.unwrap();
    host.until_at(&running.id, &gate).await;
    // Its threads that compile ahead write programs, and those that no longer fit make room when they are removed.
    host.suspend_runner(&running.id, 1).await;
    disk.fill();
    let second = Draft::new(&host, "second");
    let refused = host.create(&second).await.unwrap_err();
    assert_eq!(refused.code(), Code::Internal, "{refused:?}");
    assert!(refused.message().contains("full"), "{refused:?}");
    // The running job's next event cannot be written either.
    host.wake_runner(&running.id, 1);
    gate.open();
    until_rolled_back(&host.path(&format!("state/jobs/{}/events.log", running.id))).await;
    disk.empty();
    host.until(&running.id, |job| job.attempt == 2 && job.state() == JobState::Running).await;
    host.cancel(&running.id).await;
    let history = host.watch(&running.id).await;
    let reasons = history.waiting_reasons();
    assert!(reasons.iter().any(|reason| reason.contains("No space left")), "{reasons:?}");
    host.complete(&second).await;
    host.kill_daemon();
    host.start().await;
    assert_eq!(host.get(&running.id).await, history.job);
    assert_eq!(torn(disk.path()), [""; 0]);
}
