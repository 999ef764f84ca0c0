//! Reuse of tokenized data and compiled programs by a second run.

use traind_proto::v1::CompileSource;
use traind_tests::{Draft, History, Host};

/// The sources of the programs, with consecutive repetitions removed.
fn sources(history: &History) -> Vec<CompileSource> {
    let mut sources: Vec<_> = history.compiled().iter().map(|program| program.source()).collect();
    assert!(sources.len() >= 2, "a training and an evaluation step");
    sources.dedup();
    sources
}

fn cache_hits(history: &History) -> Vec<bool> {
    history.data().iter().map(|data| data.cache_hit).collect()
}

#[tokio::test]
async fn the_second_run_compiles_and_tokenizes_nothing() {
    let host = Host::started_cold(2).await;
    let draft = Draft::new(&host, "job").set("resources.cores", 2);
    let cold = host.complete(&draft).await;
    assert_eq!(sources(&cold), [CompileSource::Compiled]);
    assert_eq!(cache_hits(&cold), [false, false]);

    // Rates are inputs of the programs, so that another one compiles nothing.
    let again = draft.set("output_dir", "out-2").set("train.learning_rate", 1e-3);
    let warm = host.complete(&again).await;
    assert_eq!(sources(&warm), [CompileSource::Disk]);
    assert_eq!(cache_hits(&warm), [true, true]);
    let steps =
        |history: &History| history.steps().iter().map(|step| step.loss).collect::<Vec<_>>();
    assert_eq!(steps(&warm)[0], steps(&cold)[0], "the first loss comes before the first update");
}

#[tokio::test]
async fn changed_data_and_another_shape_miss_the_caches() {
    let host = Host::started_cold(1).await;
    let draft = Draft::new(&host, "job").set("train.max_steps", 2);
    host.complete(&draft).await;
    let text = std::fs::read_to_string(draft.path("train.csv")).unwrap();
    std::fs::write(draft.path("train.csv"), text.replace("cat", "dog")).unwrap();
    let draft = draft.set("train.per_device_train_batch_size", 3).set("output_dir", "second");
    let history = host.complete(&draft).await;
    assert_eq!(cache_hits(&history), [false, true]);
    let trained = history.compiled().into_iter().filter(|program| program.program == "train_step");
    for program in trained {
        assert_eq!(program.source(), CompileSource::Compiled, "{program:?}");
    }
}
