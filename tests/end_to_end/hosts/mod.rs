//! Jobs over several hosts: runners without a daemon, which share nothing but a folder.

mod buckets;
mod decisions;
mod lost;
mod shards;

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;

use traind_proto::reasons;
use traind_proto::v1::Outcome;
use traind_tests::model::Weights;
use traind_tests::{Draft, Host, Network, Runners, TrainerState, terminate, until};

/// The steps of a run, and those after which it saves.
const STEPS: u64 = 12;
const SAVE_STEPS: u64 = 5;

/// A job with dropout on `hosts` hosts with four cores in all.
fn job_file(draft: &Draft, hosts: usize) -> String {
    let cores = 4 / hosts;
    let train = format!(
        "per_device_train_batch_size: 2\n  max_steps: {STEPS}\n  save_strategy: steps\n  \
         save_steps: {SAVE_STEPS}\n  eval_strategy: steps\n  eval_steps: 6\n  weight_decay: 0.01\n  \
         adam_epsilon: 1.0e-3"
    );
    let overrides = "\n  config_overrides: {hidden_dropout_prob: 0.1}\n";
    let name = draft.folder().file_name().unwrap().to_str().unwrap();
    draft
        .job_file
        .replace("name: tiny", &format!("name: {name}"))
        .replace("sequence-classification\n", &format!("sequence-classification{overrides}"))
        .replace("num_train_epochs: 2\n  per_device_train_batch_size: 8", &train)
        .replace("cores: 1", &format!("hosts: {hosts}\n  cores: {cores}"))
}

fn start(host: &Host, draft: &Draft, hosts: usize) -> Runners {
    Runners::start(host, draft, &job_file(draft, hosts), hosts)
}

pub(crate) fn weights(draft: &Draft) -> Vec<f32> {
    let weights = Weights::read(draft.path("out/model.safetensors"));
    weights.names().iter().flat_map(|name| weights.values(name)).collect()
}

pub(crate) fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}

#[track_caller]
pub(crate) fn assert_close<'a>(
    name: &str,
    found: impl IntoIterator<Item = &'a f64>,
    expected: impl IntoIterator<Item = &'a f64>,
    tolerance: f64,
) {
    let (found, expected): (Vec<_>, Vec<_>) =
        (found.into_iter().collect(), expected.into_iter().collect());
    assert_eq!(found.len(), expected.len(), "{name}");
    for (place, (found, expected)) in found.iter().zip(expected).enumerate() {
        let difference = (*found - expected).abs() / expected.abs().max(1.0);
        assert!(difference <= tolerance, "{name} {place}: {found} for {expected}");
    }
}

pub(crate) fn series(draft: &Draft, key: &str) -> Vec<f64> {
    let state: TrainerState = draft.output("out").trainer_state();
    state.series(key)
}

pub(crate) fn is_skipped() -> bool {
    let skipped = !Runners::are_possible();
    if skipped {
        eprintln!("skipped: MPI is not installed: run `traind plugins install mpi`");
    }
    skipped
}

#[tokio::test]
async fn two_hosts_equal_one_with_all_cores_and_resume_when_one_dies() {
    if is_skipped() {
        return;
    }
    let host = Host::prepared(4);
    let one = Draft::new(&host, "one");
    start(&host, &one, 1).completed().await;
    let two = Draft::new(&host, "two");
    let mut runners = start(&host, &two, 2);
    runners.completed().await;
    assert!(!runners.logs().contains("PMIU_write"), "{}", runners.logs());
    for (key, tolerance) in
        [("loss", 1e-6), ("grad_norm", 1e-5), ("eval_loss", 1e-6), ("eval_accuracy", 0.0)]
    {
        assert_close(key, &series(&two, key), &series(&one, key), tolerance);
    }
    let [found, expected] =
        [&two, &one].map(|draft| weights(draft).into_iter().map(f64::from).collect::<Vec<_>>());
    assert_close("weights", &found, &expected, 1e-5);

    let killed = Draft::new(&host, "killed");
    let gate = host.gate("killed", 8);
    let mut runners = start(&host, &killed, 2);
    until("both wait at the gate", || {
        gate.is_reached() && killed.path("out/checkpoint-5/manifest.json").exists()
    })
    .await;
    runners.kill(1);
    let statuses = runners.ended().await;
    assert_eq!(statuses[0].code(), Some(1), "{}", runners.logs());
    let failure = runners.finished(0).failure.unwrap();
    assert_eq!(failure.host.as_deref(), Some("node1"), "{failure:?}");
    assert!(failure.reason == "HOST_LOST" && failure.transient, "{failure:?}");
    assert!(
        failure.message.contains("host 1 (") && failure.message.contains("phase"),
        "{failure:?}"
    );
    gate.open();
    // One host continues as well, with all cores.
    let fewer = Draft::new(&host, "fewer");
    let from = killed.path("out/checkpoint-5");
    let from = format!("\ntrain:\n  resume_from_checkpoint: {}\n", from.display());
    let resumed = job_file(&fewer, 1).replacen("\ntrain:\n", &from, 1);
    let mut runners = Runners::start(&host, &fewer, &resumed, 1);
    runners.completed().await;
    assert!(runners.logs().contains("resumed after step 5"), "{}", runners.logs());
    let (found, expected) = (series(&fewer, "loss"), series(&one, "loss"));
    let later = (STEPS - 5) as usize;
    let [found, expected] = [&found, &expected].map(|losses| &losses[losses.len() - later..]);
    assert_close("loss", found, expected, 1e-6);
    let [found, expected] =
        [&fewer, &one].map(|draft| weights(draft).into_iter().map(f64::from).collect::<Vec<_>>());
    assert_close("weights", &found, &expected, 1e-5);

    let mut runners = start(&host, &killed, 2);
    runners.completed().await;
    assert!(runners.logs().contains("resumed after step 5"), "{}", runners.logs());
    assert_eq!(bits(&weights(&killed)), bits(&weights(&two)));
}

#[tokio::test]
async fn mpirun_starts_the_runners_of_a_job() {
    if is_skipped() {
        return;
    }
    let host = Host::prepared(4);
    let one = Draft::new(&host, "one");
    start(&host, &one, 1).completed().await;
    let two = Draft::new(&host, "two");
    let mut runners = Runners::start_by_mpirun(&host, &two, &job_file(&two, 2), &["-n", "2"]);
    runners.completed().await;
    let [first, second] = [0, 1].map(|rank| runners.finished(rank));
    assert_eq!([first.outcome(), second.outcome()], [Outcome::Completed; 2]);
    assert_close("loss", &series(&two, "loss"), &series(&one, "loss"), 1e-6);

    let three = Draft::new(&host, "three");
    let mut runners = Runners::start_by_mpirun(&host, &three, &job_file(&three, 2), &["-n", "3"]);
    assert!(!runners.ended().await[0].success());
    let problem = "MPICH started 3; set resources.hosts to 3, or start 2";
    assert!(runners.logs().contains(problem), "{}", runners.logs());
}

#[tokio::test]
async fn a_host_that_waits_for_another_ends_when_it_is_asked_to_stop() {
    if is_skipped() {
        return;
    }
    let host = Host::prepared(4);
    let alone = Draft::new(&host, "alone");
    let mut runners =
        Runners::start_with(&host, &alone, &job_file(&alone, 2), 2, |rank, _| rank == 0);
    until("host 0 serves", || alone.path("out/run/rendezvous").exists()).await;
    terminate(runners.pid(0));
    let statuses = runners.ended().await;
    assert_eq!(statuses[0].code(), Some(3), "{}", runners.logs());

    // Host 1 stands at the gate, and host 0 waits for it in a collective.
    let blocked = Draft::new(&host, "blocked");
    let gate = host.gate("blocked", 3);
    let mut runners =
        Runners::start_with(&host, &blocked, &job_file(&blocked, 2), 2, |rank, command| {
            if rank == 0 {
                command.env_remove("TRAIND_TEST_STEP_GATES");
            }
            command.env("TRAIND_HOST_SILENCE_SECONDS", "3");
            true
        });
    until("host 1 waits at the gate", || gate.is_reached()).await;
    terminate(runners.pid(0));
    let statuses = runners.ended().await;
    assert!(statuses.iter().all(|status| status.code() == Some(1)), "{}", runners.logs());
    let failure = runners.finished(0).failure.unwrap();
    let message = "host 0 was asked to stop, and has made no progress for";
    assert!(failure.message.contains(message) && failure.transient, "{failure:?}");
}

#[tokio::test]
async fn a_signal_to_one_host_stops_all_after_the_same_step() {
    if is_skipped() {
        return;
    }
    let host = Host::prepared(4);
    let draft = Draft::new(&host, "stopped");
    let gate = host.gate("stopped", 3);
    let mut runners = start(&host, &draft, 2);
    until("the job waits at the gate", || gate.is_reached()).await;
    terminate(runners.pid(1));
    gate.open();
    let statuses = runners.ended().await;
    assert!(statuses.iter().all(|status| status.code() == Some(3)), "{}", runners.logs());
    let [first, second] = [0, 1].map(|rank| runners.finished(rank));
    assert_eq!([first.outcome(), second.outcome()], [Outcome::Cancelled; 2]);
    assert!(first.steps == second.steps && first.steps < STEPS, "{first:?} {second:?}");
    // What the next start resumes from.
    assert!(draft.path(&format!("out/checkpoint-{}/manifest.json", first.steps)).exists());
}

#[tokio::test]
async fn a_host_with_another_job_or_without_the_output_folder_ends_all_before_the_first_step() {
    if is_skipped() {
        return;
    }
    let host = Host::prepared(4);
    let check = async |name: &str, change: [&str; 2], expect: &str| {
        let draft = Draft::new(&host, name);
        let at = |name: &str| draft.path(name).display().to_string();
        let job = job_file(&draft, 2)
            .replace("./model", &at("model"))
            .replace("train.csv", &at("train.csv"))
            .replace("validation.parquet", &at("validation.parquet"))
            .replace("output_dir: out", &format!("output_dir: {}", at("out")));
        let other = host.path(&format!("{name}-other"));
        fs::create_dir(&other).unwrap();
        fs::write(other.join("job.yaml"), job.replace(change[0], change[1])).unwrap();
        let mut runners = Runners::start_with(&host, &draft, &job, 2, |rank, command| {
            command.env("TRAIND_RENDEZVOUS_DIR", draft.folder());
            if rank == 1 {
                command.current_dir(&other);
            }
            true
        });
        assert!(runners.ended().await.iter().all(|status| !status.success()));
        let failure = runners.finished(0).failure.unwrap();
        assert_eq!((failure.reason.as_str(), failure.step), (reasons::HOSTS_DIFFER, None));
        assert!(failure.message.contains(expect), "{failure:?}\n{}", runners.logs());
    };
    let differs = "the job file differs from that of host 0 on host 1";
    check("differing", ["weight_decay: 0.01", "weight_decay: 0.02"], differs).await;
    let unshared = "/unshared/out of host 0 cannot be read on host 1; output_dir must be a folder that all hosts see, \
                    or in a bucket";
    check("unshared", ["/unshared/out", "/unshared-other/out"], unshared).await;
}

/// The bytes that open a connection of HTTP/2, whose server answers with its settings.
const PLAIN: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
/// The first byte of a server's refusal of what is not TLS.
const TLS_ALERT: u8 = 0x15;
/// The key of another job.
const OTHER_KEY: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";

#[tokio::test]
async fn hosts_in_networks_of_their_own_equal_one_and_refuse_strangers() {
    if is_skipped() {
        return;
    }
    let Some(network) = Network::joined() else { return };
    let host = Host::prepared(4);
    let one = Draft::new(&host, "one");
    start(&host, &one, 1).completed().await;
    let two = Draft::new(&host, "two");
    let gate = host.gate("two", 3);
    let options = network.mpirun_options(two.folder());
    let mut runners =
        network.inside(0, || Runners::start_by_mpirun(&host, &two, &job_file(&two, 2), &options));
    until("both train", || gate.is_reached()).await;

    let stranger = Draft::new(&host, "stranger");
    let mut strangers = network.inside(1, || {
        Runners::start_with(&host, &stranger, &job_file(&stranger, 2), 2, |rank, command| {
            command.env("TRAIND_COORDINATOR", Network::coordinator());
            command.env("TRAIND_RENDEZVOUS_KEY", OTHER_KEY).env("TRAIND_RENDEZVOUS_SECONDS", "1");
            rank == 1
        })
    });
    assert!(!strangers.ended().await[0].success());
    assert!(strangers.logs().contains("certificate"), "{}", strangers.logs());
    let answer = network.inside(1, || {
        let mut plain = TcpStream::connect(Network::coordinator()).unwrap();
        plain.write_all(PLAIN).unwrap();
        let mut answer = Vec::new();
        // The server may close the connection at once.
        let _ = plain.read_to_end(&mut answer);
        answer
    });
    assert!(answer.is_empty() || answer[0] == TLS_ALERT, "{answer:?}");

    gate.open();
    runners.completed().await;
    assert_close("loss", &series(&two, "loss"), &series(&one, "loss"), 1e-6);
    let [found, expected] =
        [&two, &one].map(|draft| weights(draft).into_iter().map(f64::from).collect::<Vec<_>>());
    assert_close("weights", &found, &expected, 1e-6);
}

#[test]
fn the_doctor_lets_processes_exchange_data() {
    let host = Host::cold(1);
    let doctor = |library: &Path| {
        let mut command = host.traind();
        let output = command.args(["doctor", "--engine", "mpi"]).env("TRAIND_PLUGIN_MPI", library);
        let output = output.output().unwrap();
        (output.status.code(), String::from_utf8(output.stdout).unwrap())
    };
    let (code, text) = doctor(Path::new("/absent/libmpi_abi.so.1"));
    assert_eq!(code, Some(1));
    assert!(text.contains("missing  exchange: load the MPI library /absent/"), "{text}");
    if is_skipped() {
        return;
    }
    let (code, text) = doctor(&Runners::mpi_library().unwrap());
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains(" GB/s between two processes of this host"), "{text}");
}
