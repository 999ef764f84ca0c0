//! Jobs under `--allow-root`: their paths are checked at submission, and their runners are confined
//! by the kernel, even if paths are replaced in between.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use tonic::Code;
use tonic_types::StatusExt;
use traind_proto::v1::JobState;

use crate::support::host::Host;
use crate::support::runner::{COMPLETES, STOPS_WHEN_ASKED, install_preparation};

/// Repeatedly opens paths that lead outside, and reports which could be read.
fn escaping(secret: &Path, tries: u32) -> String {
    let (root, secret) = (secret.parent().unwrap().join("root"), secret.display());
    let root = root.display();
    format!(
        "say started
         cat '{root}/train.csv' > seen || exit 9
         echo written > '{root}/written' || exit 8
         try=0
         while [ $try -lt {tries} ]; do
           for path in '{root}/link' '{root}/swapped/secret' '{root}/../secret' '{secret}'; do
             {{ read -r line < $path; }} 2> /dev/null && case $line in *hidden*) echo $path >> escaped;; esac
           done
           try=$((try + 1))
         done
         {{ echo x > '{secret}'; }} 2> /dev/null && echo write >> escaped
         cat ../../traind.db > /dev/null 2>&1 && echo store >> escaped
         say completed"
    )
}

fn tries() -> u32 {
    let given = std::env::var("TRAIND_SOAK_TRIES").ok();
    given.and_then(|text| text.parse().ok()).unwrap_or(500)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_runner_does_not_escape_while_links_are_swapped() {
    let outside = tempfile::tempdir().unwrap();
    let (root, secret) = (outside.path().join("root"), outside.path().join("secret"));
    fs::create_dir_all(root.join("harmless")).unwrap();
    fs::create_dir_all(root.join("model")).unwrap();
    fs::write(root.join("harmless/secret"), "nothing\n").unwrap();
    fs::write(root.join("train.csv"), "text,label\na,0\n").unwrap();
    fs::write(&secret, "hidden\n").unwrap();
    symlink(&secret, root.join("link")).unwrap();
    let mut host = Host::new(1, &escaping(&secret, tries()));
    // The script reads the frames that it reports.
    let frames = host.path("frames");
    host.options = [&root, &frames].map(|path| format!("--allow-root={}", path.display())).into();
    host.start().await;
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let (swapped, next) = (root.join("swapped"), root.join("next"));
            for target in ["harmless", ".."].into_iter().cycle() {
                symlink(target, &next).unwrap();
                fs::rename(&next, &swapped).unwrap();
                if stop.load(Ordering::Relaxed) {
                    return;
                }
            }
        });
        tokio::task::block_in_place(|| {
            tokio::runtime::Handle::current().block_on(async {
                let mut request = host.request("escaping", 1);
                request.base_dir = root.display().to_string();
                let job = host.create(request).await.unwrap();
                let job = host.until(&job.id, |job| job.end_time.is_some()).await;
                stop.store(true, Ordering::Relaxed);
                assert_eq!(job.state(), JobState::Completed, "{job:?}");
                let escaped = fs::read_to_string(host.run_dir(&job.id).join("escaped"));
                assert_eq!(escaped.unwrap_or_default(), "");
            });
        });
    });
    assert_eq!(fs::read_to_string(&secret).unwrap(), "hidden\n");
    assert_eq!(fs::read_to_string(root.join("written")).unwrap(), "written\n");
}

/// Opens paths that a preparation may not open, and writes down which it could.
fn preparing(root: &Path, secret: &Path, state: &Path) -> String {
    let [root, secret, state] = [root, secret, state].map(Path::display);
    format!(
        "cat '{root}/train.csv' > \"$run_dir/seen\" || exit 9
         echo written > cache/written || exit 8
         for path in '{secret}' '{root}/link' '{root}/../secret' '{state}/traind.db' \"{state}\"/jobs/*/frames; do
           {{ cat \"$path\" > /dev/null; }} 2> /dev/null && echo \"$path\" >> \"$run_dir/escaped\"
         done
         for path in '{secret}' '{root}/train.csv' '{root}/new' '{state}/new' frames/started; do
           {{ echo x >> \"$path\"; }} 2> /dev/null && echo \"$path\" >> \"$run_dir/escaped\"
         done
         true"
    )
}

/// Unlike a runner, a preparation has nothing to write in the roots.
#[tokio::test]
async fn a_preparation_reads_the_roots_and_writes_only_the_caches() {
    let outside = tempfile::tempdir().unwrap();
    let (root, secret) = (outside.path().join("root"), outside.path().join("secret"));
    fs::create_dir_all(root.join("model")).unwrap();
    fs::write(root.join("train.csv"), "text,label\na,0\n").unwrap();
    fs::write(&secret, "hidden\n").unwrap();
    symlink(&secret, root.join("link")).unwrap();
    let mut host = Host::new(1, STOPS_WHEN_ASKED);
    install_preparation(&host.path(""), &preparing(&root, &secret, &host.path("state")));
    let frames = host.path("frames");
    host.options = [&root, &frames].map(|path| format!("--allow-root={}", path.display())).into();
    host.start().await;
    let mut request = host.request("first", 1);
    request.base_dir = root.display().to_string();
    let first = host.create(request.clone()).await.unwrap();
    host.until_state(&first.id, JobState::Running).await;
    request.job_file = request.job_file.replace("first", "second");
    let second = host.create(request).await.unwrap();
    // Created, waiting, prepared.
    let waiting = host.until(&second.id, |job| job.last_sequence == 3).await;
    assert_eq!(waiting.state(), JobState::Pending);
    for job in [&second, &first] {
        host.cancel(&job.id).await.unwrap();
    }
    let run_dir = host.run_dir(&second.id);
    assert_eq!(fs::read_to_string(run_dir.join("seen")).unwrap(), "text,label\na,0\n");
    assert_eq!(fs::read_to_string(run_dir.join("escaped")).unwrap_or_default(), "");
    assert_eq!(fs::read_to_string(&secret).unwrap(), "hidden\n");
    assert!(host.path("cache/written").exists());
}

#[tokio::test]
async fn paths_outside_are_all_listed_in_the_error() {
    let outside = tempfile::tempdir().unwrap();
    let host = Host::new(1, COMPLETES);
    fs::create_dir(host.path("root")).unwrap();
    symlink(host.path("model"), host.path("root/model")).unwrap();
    let mut host = host;
    host.options = vec![format!("--allow-root={}", host.path("root").display())];
    host.start().await;
    let mut request = host.request("nosy", 1);
    request.base_dir = host.path("root").display().to_string();
    request.job_file = request.job_file.replace("train.csv", "/etc/pass*");
    let output = outside.path().join("out").display().to_string();
    request.job_file = request.job_file.replace("out/nosy", &output);
    request.job_file.push_str("train: {resume_from_checkpoint: ../model}\n");
    let refused = host.create(request).await.unwrap_err();
    assert_eq!(refused.code(), Code::InvalidArgument);
    let details = refused.get_error_details();
    let violations = &details.bad_request().unwrap().field_violations;
    let fields: Vec<&str> = violations.iter().map(|violation| violation.field.as_str()).collect();
    let checkpoint = "train.resume_from_checkpoint";
    assert_eq!(fields, ["model.name_or_path", "data.train", "output_dir", checkpoint]);
    assert!(violations.iter().all(|v| v.description.contains("is outside")), "{violations:?}");
    // The error must not reveal whether a path outside exists.
    for pattern in ["*/../../train.csv", "*/../../not-there.csv", "**/../../train.csv"] {
        let mut request = host.request("nosy", 1);
        request.base_dir = host.path("root").display().to_string();
        request.job_file = request.job_file.replace("train.csv", &format!("{pattern:?}"));
        request.job_file = request.job_file.replace("./model", "./here");
        fs::create_dir_all(host.path("root/here")).unwrap();
        let refused = host.create(request).await.unwrap_err();
        let violations =
            refused.get_error_details().bad_request().unwrap().field_violations.clone();
        assert_eq!(violations.len(), 1, "{violations:?}");
        assert!(violations[0].description.contains("after a wildcard"), "{violations:?}");
    }
}

#[tokio::test]
async fn a_runner_is_limited_in_memory_and_leaves_no_core() {
    let script = "ulimit -d > limits; ulimit -c >> limits; say started; say completed";
    let host = Host::started_with(1, script, &["--memory-per-job=2"]).await;
    let job = host.submit("limited", 1).await;
    host.until_state(&job.id, JobState::Completed).await;
    let limits = fs::read_to_string(host.run_dir(&job.id).join("limits")).unwrap();
    assert_eq!(limits, "2097152\n0\n");
}
