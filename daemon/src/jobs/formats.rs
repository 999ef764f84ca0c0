//! The daemon's records of a job as all kept versions wrote them: each is read with all its values. A release needs
//! records of its own, which `TRAIND_WRITE_FIXTURES=1` writes.

use std::fs;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use traind_fuzz::contains;

use super::cluster::{Cluster, ClusterJob};
use super::record::Placement;
use super::restored::Restored;
use super::store::{JobWarning, NewJob, Parent};
use super::supervisor::claim::Claim;
use crate::access::account::Account;
use crate::host::process::Identity;
use crate::notification::{Receiver, Way};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/records")
}

/// A job with a value in each field.
#[allow(clippy::needless_update)] // a field that is added is no fault here
fn job() -> NewJob {
    let webhook = Way::Webhook { url: "https://host/".into(), secret_file: Some("/secret".into()) };
    let command = Way::Command { words: vec!["mail".into(), "ann".into()] };
    let receiver = |way| Receiver { states: vec!["failed".into()], way, is_operators: true };
    NewJob {
        create_time: 1_700_000_000_000_000,
        id: "01J".into(),
        name: "a name".into(),
        owner: "ann".into(),
        run_as: Some(Account { uid: 1000, gid: 100 }),
        request_id: "once".into(),
        request_digest: vec![1, 2, 3],
        platform: "cpu".into(),
        core_count: 2,
        priority: -3,
        max_run_seconds: Some(60),
        max_wait_seconds: Some(70),
        after: Some("01H".into()),
        max_restarts: 4,
        price_per_hour: Some(0.5),
        engine: "slurm".into(),
        hosts: 2,
        on_demand_price_per_hour: Some(1.5),
        receivers: [webhook, command].map(receiver).into(),
        output_dir: "/out".into(),
        job_file: "name: a name\n".into(),
        base_dir: "/base".into(),
        resolved: "{}".into(),
        warnings: vec![JobWarning { code: "CODE".into(), message: "a warning".into() }],
        parent: Some(Parent { job_id: "01G".into(), step: 9 }),
        ..NewJob::default()
    }
}

fn records() -> Value {
    let runner = Identity { pid: 7, start_time: 1234, boot_id: "boot".into() };
    let cluster = |cluster| ClusterJob { cluster, id: "42".into() };
    json!({
        "job": job(),
        "placement": Placement { attempt: 2, cores: vec![0, 1] },
        "claims": [
            Claim::Runner(runner),
            Claim::Cluster(cluster(Cluster::Slurm)),
            Claim::Cluster(cluster(Cluster::Kubernetes)),
            Claim::Adopted,
            Claim::Void,
        ],
        "restored": Restored {
            time: 1_700_000_000_000_000,
            since_attempt: 2,
            run_dir: Some("/state/jobs/01J".into()),
            follows: Some(cluster(Cluster::Slurm)),
        },
    })
}

/// Reads a record, also with a key that only a later version has.
fn check<T: Serialize + DeserializeOwned>(path: &Path, kept: &Value) {
    let read: T = serde_json::from_value(kept.clone()).unwrap();
    let now = serde_json::to_value(&read).unwrap();
    assert!(contains(&now, kept), "{}: {now} lacks something of {kept}", path.display());
    let mut later = kept.clone();
    if let Some(keys) = later.as_object_mut().filter(|keys| keys.len() > 1) {
        keys.insert("of_a_later_version".into(), json!([1]));
    }
    serde_json::from_value::<T>(later).unwrap();
}

#[test]
fn records_of_all_kept_versions_are_read_with_all_their_values() {
    let current = folder().join(format!("{}.json", env!("CARGO_PKG_VERSION")));
    if std::env::var_os("TRAIND_WRITE_FIXTURES").is_some() {
        fs::create_dir_all(folder()).unwrap();
        fs::write(&current, format!("{:#}\n", records())).unwrap();
    }
    assert!(current.exists(), "{} is missing: set TRAIND_WRITE_FIXTURES=1", current.display());
    for entry in fs::read_dir(folder()).unwrap() {
        let path = entry.unwrap().path();
        let kept: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        check::<NewJob>(&path, &kept["job"]);
        check::<Placement>(&path, &kept["placement"]);
        check::<Restored>(&path, &kept["restored"]);
        for claim in kept["claims"].as_array().unwrap() {
            check::<Claim>(&path, claim);
        }
    }
}
