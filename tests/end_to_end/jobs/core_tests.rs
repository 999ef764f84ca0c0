//! Tests of idle cores by the runner's own program, on CPU devices of which one is made to answer wrong.

use traind_proto::v1::JobState;
use traind_tests::{Draft, Host};

#[tokio::test]
async fn a_core_that_answers_wrong_gets_no_jobs_until_it_is_returned() {
    let wrong = vec![("TRAIND_TEST_WRONG_CORE", "0".to_owned())];
    let host = Host::started_with_environment(2, wrong).await;
    let said = host.cli(&host.path(""), &["cores", "test"]);
    assert_eq!(said.code, Some(1), "{said:?}");
    let lines: Vec<&str> = said.stdout.lines().collect();
    assert!(lines[1].contains("failed") && lines[1].contains("matrix product: "), "{said:?}");
    assert!(lines[2].contains("passed"), "{said:?}");
    let job = host.create(&Draft::new(&host, "job").set("train.max_steps", 2)).await.unwrap();
    let history = host.watch(&job.id).await;
    assert_eq!(history.job.state(), JobState::Completed);
    assert_eq!(history.started().cores, [1]);
    let again = host.cli(&host.path(""), &["cores", "test", "1"]);
    assert_eq!(again.code, Some(0), "{again:?}");
}
