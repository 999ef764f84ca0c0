//! `traind programs`, and `TRAIND_DUMP_PROGRAMS`.

use std::fs;

use traind_tests::{Draft, Host};

#[tokio::test(flavor = "multi_thread")]
async fn the_programs_of_a_job_can_be_looked_at() {
    let dump = tempfile::tempdir().unwrap();
    let environment = vec![("TRAIND_DUMP_PROGRAMS", dump.path().display().to_string())];
    let host = Host::started_with_environment(2, environment).await;
    let draft = Draft::new(&host, "watched")
        .set("resources.cores", 2)
        .set("train.gradient_accumulation_steps", 2)
        .set("parallel.shard_optimizer_state", true);
    let id = host.complete(&draft).await.job.id;

    let shown = host.cli(draft.folder(), &["programs", "watched"]).stdout;
    let names: Vec<&str> = shown.lines().filter(|line| line.contains(" on 2 cores")).collect();
    assert!(names.iter().any(|name| name.starts_with("accumulate_step-")), "{shown}");
    assert!(names.contains(&"update_step-0 on 2 cores"), "{shown}");
    let update = shown.split("update_step-0").nth(1).unwrap();
    // The smallest parameters stay whole. Loss, weights and norm are three more numbers.
    for expected in
        ["all_reduce ", "temporaries ", "input        scalars f32[", "1 group of 2 along data"]
    {
        assert!(update.contains(expected), "no {expected:?} in {update}");
    }
    let text = host.cli(draft.folder(), &["programs", &id, "--text", "--shapes"]).stdout;
    assert_eq!(text.matches("module @step").count(), names.len());
    assert!(text.contains(".exp_avg_sq f32["), "{text}");

    let dumped = dump.path().join(&id);
    let update = fs::read_to_string(dumped.join("update_step-0.txt")).unwrap();
    assert!(shown.contains(&update), "{update}");
    let text = fs::read_to_string(dumped.join("update_step-0.mlir")).unwrap();
    assert!(text.starts_with("module @step"), "{text}");
}
