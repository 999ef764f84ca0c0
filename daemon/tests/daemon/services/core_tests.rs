//! Tests of idle cores by known answers, on a host whose runner answers as the tests want.

use std::fs;
use std::time::{Duration, Instant};

use tonic::Code;
use traind_proto::v1::{JobState, TestCoresRequest, TestCoresResponse, TestOutcome};

use super::devices::{cores, neuron_host};
use crate::support::host::{Host, PATIENCE, lives, until, until_file};
use crate::support::runner::STOPS_WHEN_ASKED;

/// Core 1 answers wrong, in whatever company.
const CORE_1_IS_SICK: &str = r#"
case "$request" in
  *'[0,1]'*) echo '{"cores": [{"problem": null, "seconds": 0.01}, {"problem": "integers: off by one", "seconds": 0.01}]}';;
  *'[1]'*) echo '{"cores": [{"problem": "integers: off by one", "seconds": 0.01}]}';;
  *) echo '{"cores": [{"problem": null, "seconds": 0.01}]}';;
esac
exit 0"#;
/// Says that it runs, and ends with the daemon's pipe.
const NEVER_ENDS: &str = "echo $$ > testing.new; mv testing.new testing; exec cat > /dev/null";

fn answer(host: &Host, script: &str) {
    fs::write(host.path("frames/core-test.sh"), script).unwrap();
}

/// Waits for a test that never ends. Returns its process id.
async fn test_process(host: &Host) -> String {
    until_file(&host.path("testing")).await;
    fs::read_to_string(host.path("testing")).unwrap().trim().to_owned()
}

#[tokio::test]
async fn a_core_that_answers_wrong_is_fenced_and_gets_no_jobs() {
    let mut host = Host::new(2, STOPS_WHEN_ASKED);
    answer(&host, CORE_1_IS_SICK);
    host.start().await;
    let (passed, shown) = host.said(&["cores", "test"]);
    assert!(!passed, "{shown}");
    let lines: Vec<&str> = shown.lines().collect();
    assert!(lines[1].starts_with("0") && lines[1].contains("passed"), "{shown}");
    assert!(lines[2].starts_with("1") && lines[2].contains("failed"), "{shown}");
    assert!(lines[2].contains("integers: off by one"), "{shown}");
    let listed = cores(&host).await;
    assert_eq!(listed[0].test.as_ref().unwrap().outcome(), TestOutcome::Passed);
    assert_eq!((&listed[0].fence, listed[1].test.is_some()), (&None, true));
    let fence = listed[1].fence.as_ref().unwrap();
    assert_eq!(fence.reason, "wrong answer to a test: integers: off by one");
    let wide = host.submit("wide", 2).await;
    host.until(&wide.id, |job| job.waiting_reason.contains("of which one is fenced")).await;

    // A fenced core can be tested again, and answers right once its device is replaced.
    answer(&host, &CORE_1_IS_SICK.replace("\"integers: off by one\"", "null"));
    let (passed, shown) = host.said(&["cores", "test", "1", "-o", "json"]);
    assert!(passed && shown.contains("\"outcome\": \"passed\""), "{shown}");
    assert!(host.said(&["cores", "return", "1"]).0);
    host.until_state(&wide.id, JobState::Running).await;
    let (done, refused) = host.said(&["cores", "test", "1"]);
    let held = format!("core 1 is held by job {}", wide.id);
    assert!(!done && refused.contains(&held), "{refused}");
    let (done, refused) = host.said(&["cores", "test", "2"]);
    assert!(!done && refused.contains("this host has no core 2"), "{refused}");
    let (_, shown) = host.said(&["cores"]);
    assert!(shown.contains("TESTED") && shown.contains("passed"), "{shown}");
}

#[tokio::test]
async fn no_core_is_fenced_while_none_has_answered_right() {
    let mut host = Host::new(2, STOPS_WHEN_ASKED);
    let wrong = CORE_1_IS_SICK.replace("null", "\"integers: all wrong\"");
    answer(&host, &wrong);
    host.start().await;
    let (passed, shown) = host.said(&["cores", "test"]);
    assert!(!passed && shown.contains("uncertain") && shown.contains("the plugin"), "{shown}");
    // Nor is one whose test does not run.
    answer(&host, "echo the device is on fire >&2; exit 1");
    let (passed, shown) = host.said(&["cores", "test"]);
    assert!(!passed && shown.contains("not run") && shown.contains("on fire"), "{shown}");
    assert!(cores(&host).await.iter().all(|core| core.fence.is_none()));
    assert!(host.said(&["cores", "test", "7"]).1.contains("no core 7"));
}

#[tokio::test]
async fn jobs_wait_for_a_test_that_an_admin_wants() {
    let mut host = Host::new(1, STOPS_WHEN_ASKED);
    answer(&host, NEVER_ENDS);
    host.start().await;
    let mut client = host.cores().await;
    let mut test = client.test_cores(TestCoresRequest::default()).await.unwrap().into_inner();
    let pid = test_process(&host).await;
    let again = host.cores().await.test_cores(TestCoresRequest { cores: vec![0] }).await;
    let refused = again.err().unwrap();
    assert_eq!(refused.code(), Code::InvalidArgument);
    assert!(refused.message().contains("is being tested"), "{refused}");
    let job = host.submit("waits", 1).await;
    host.until(&job.id, |job| job.waiting_reason.contains("fenced or tested")).await;
    // The test ends with the connection of the one who wanted it.
    assert!(lives(&pid));
    let timed_out = tokio::time::timeout(Duration::from_millis(1), test.message()).await;
    assert!(timed_out.is_err(), "it has no result");
    drop((test, client));
    host.until_state(&job.id, JobState::Running).await;
    until("the test has ended", || !lives(&pid)).await;
}

#[tokio::test]
async fn idle_cores_are_tested_between_jobs_and_the_test_makes_way() {
    let mut host = Host::new(2, STOPS_WHEN_ASKED);
    host.options = vec!["--test-cores-every=1".to_owned()];
    answer(&host, NEVER_ENDS);
    host.start().await;
    let pid = test_process(&host).await;
    let requests = || fs::read_to_string(host.path("core-tests")).unwrap();
    assert!(requests().contains("\"cores\":[0,1]"), "{}", requests());
    let job = host.submit("first", 1).await;
    let placed = host.until_state(&job.id, JobState::Running).await;
    until("the test has ended", || !lives(&pid)).await;

    // The other core is tested beside the job, and the job's never is.
    answer(&host, CORE_1_IS_SICK);
    let free = 1 - placed.cores[0];
    let was_tested = |core: u32| requests().contains(&format!("\"cores\":[{core}]"));
    until("the free core is tested", || was_tested(free)).await;
    assert!(!was_tested(placed.cores[0]), "{}", requests());
    host.cancel(&job.id).await.unwrap();
    // Core 1 answers wrong, which is certain once core 0 has answered right.
    let start = Instant::now();
    while cores(&host).await[1].fence.is_none() {
        assert!(start.elapsed() < PATIENCE, "{}", host.log());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(cores(&host).await[0].fence, None);
}

#[tokio::test]
async fn a_test_ends_with_its_daemon() {
    let mut host = Host::new(1, STOPS_WHEN_ASKED);
    answer(&host, NEVER_ENDS);
    host.start().await;
    let mut client = host.cores().await;
    let test = client.test_cores(TestCoresRequest::default()).await.unwrap().into_inner();
    let pid = test_process(&host).await;
    host.kill_daemon();
    until("the test has ended", || !lives(&pid)).await;
    drop(test);
    answer(&host, CORE_1_IS_SICK);
    host.start().await;
    let mut client = host.cores().await;
    let mut test = client.test_cores(TestCoresRequest::default()).await.unwrap().into_inner();
    let TestCoresResponse { core, test } = test.message().await.unwrap().unwrap();
    assert_eq!((core, test.unwrap().outcome()), (0, TestOutcome::Passed));
}

#[tokio::test]
async fn a_core_whose_device_failed_a_job_is_tested_before_it_gets_the_next() {
    let mut host = Host::new(1, "say started; say device-failed; exit 1");
    host.options = vec!["--test-cores-every=86400".to_owned()];
    answer(&host, CORE_1_IS_SICK);
    host.start().await;
    let job = host.submit("fails", 1).await;
    host.until_state(&job.id, JobState::Failed).await;
    let next = host.submit("next", 1).await;
    host.until_state(&next.id, JobState::Failed).await;
    let log = host.log();
    let tested = log.find("tested a core on which a job's device failed").unwrap();
    let starts: Vec<usize> = log.match_indices("start job=").map(|(at, _)| at).collect();
    assert!(starts.len() == 2 && starts[0] < tested && tested < starts[1], "{log}");
    assert_eq!(cores(&host).await[0].fence, None, "the test has cleared it");
}

#[tokio::test]
async fn a_core_that_is_slower_than_the_others_twice_is_fenced() {
    let mut host = neuron_host(STOPS_WHEN_ASKED);
    let plugin = host.path("plugin.so");
    fs::write(&plugin, "").unwrap();
    host.environment.push(("TRAIND_PLUGIN_NEURON".into(), plugin.to_str().unwrap().into()));
    let of = |seconds: &str| {
        let core = |seconds| format!("{{\"problem\": null, \"seconds\": {seconds}}}");
        format!("echo '{{\"cores\": [{}, {}]}}'; exit 0", core("0.010"), core(seconds))
    };
    // Once may be an accident.
    let once = format!("[ -e again ] && {{ {}; }}; touch again; {}", of("0.011"), of("0.050"));
    answer(&host, &once);
    host.start().await;
    let (passed, shown) = host.said(&["cores", "test"]);
    assert!(passed, "{shown}");
    answer(&host, &of("0.050"));
    let (passed, shown) = host.said(&["cores", "test"]);
    assert!(!passed && shown.contains("slow: a matrix product takes 50.000 ms"), "{shown}");
    let listed = cores(&host).await;
    assert_eq!((listed[0].fence.is_some(), listed[1].fence.is_some()), (false, true));
    let requests = fs::read_to_string(host.path("core-tests")).unwrap();
    assert_eq!(requests.lines().count(), 4, "{requests}");
}
