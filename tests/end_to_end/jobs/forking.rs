//! Jobs that continue from a checkpoint of another job.

use traind_proto::v1::{CompileSource, JobState, Parent};
use traind_tests::bucket::Bucket;
use traind_tests::{Draft, Host};

#[tokio::test]
async fn a_fork_continues_with_other_settings_and_compiles_nothing() {
    let host = Host::started_cold(1).await;
    let draft = Draft::new(&host, "parent")
        .set("train.max_steps", 12)
        .set("train.save_steps", 4)
        .set("train.lr_scheduler_type", "constant")
        .set("train.load_best_model_at_end", true)
        .set("train.eval_strategy", "steps")
        .set("train.eval_steps", 4);
    let parent = host.complete(&draft).await;
    let rate = "--set=train.learning_rate=1e-3";
    let forked = host.cli(draft.folder(), &["fork", "parent", "--at", "8", rate]);
    assert_eq!(forked.code, Some(0), "{forked:?}");
    let fork = host.watch(forked.stdout.trim()).await;
    assert_eq!(fork.job.state(), JobState::Completed, "{:?}", fork.job);
    assert_eq!(fork.job.name, "parent-fork");
    assert_eq!(fork.job.output_dir, format!("{}-fork", parent.job.output_dir));
    let lineage = Parent { job_id: parent.job.id.clone(), step: 8 };
    assert_eq!(fork.job.parent, Some(lineage));
    let shown = host.cli(draft.folder(), &["get", "parent-fork"]).stdout;
    assert!(shown.contains(&format!("{} at step 8", parent.job.id)), "{shown}");
    assert_eq!(host.get(&parent.job.id).await.parent, None);

    assert!(fork.compiled().iter().all(|program| program.source() == CompileSource::Disk));
    let steps: Vec<(u64, f64)> =
        fork.steps().iter().map(|it| (it.step, it.learning_rate)).collect();
    assert_eq!(steps, [(9, 1e-3), (10, 1e-3), (11, 1e-3), (12, 1e-3)]);
    let (ours, theirs) = (fork.steps(), parent.steps());
    assert_eq!(ours[0].loss, theirs[8].loss, "the same weights and rows");
    assert_ne!(ours[3].loss, theirs[11].loss, "another rate");

    let again = host.cli(draft.folder(), &["fork", "parent", "--set=train.max_steps=13"]);
    let again = host.watch(again.stdout.trim()).await.job;
    assert_eq!(again.parent.map(|it| it.step), Some(12), "the newest");
    assert_eq!(again.output_dir, format!("{}-fork-2", parent.job.output_dir));

    let missing = host.cli(draft.folder(), &["fork", "parent", "--at", "5"]);
    assert_ne!(missing.code, Some(0));
    let expect = "has no checkpoint of step 5: it has those of steps 4, 8, 12";
    assert!(missing.stderr.contains(expect), "{missing:?}");
}

#[tokio::test]
async fn a_job_resumes_from_the_output_folder_of_another() {
    let host = Host::started(1).await;
    let of = |name: &str, steps: u64| {
        Draft::new(&host, name).set("train.max_steps", steps).set("train.save_steps", 3)
    };
    let first = of("first", 6);
    let parent = host.complete(&first).await.job;
    let second = of("second", 8).set("train.resume_from_checkpoint", first.path("out").display());
    let history = host.complete(&second).await;
    assert_eq!(history.resumed()[0].step, 6);
    assert_eq!(history.job.parent, Some(Parent { job_id: parent.id, step: 6 }));
}

#[tokio::test]
async fn a_fork_finds_checkpoints_in_a_bucket_and_has_a_price() {
    let bucket = Bucket::start(&[]);
    let mut host = Host::prepared(1);
    let environment = bucket.environment().into_iter();
    host.set_environment(environment.map(|(name, value)| (name.to_owned(), value)).collect());
    host.add_options(&["--price-per-hour", "7200", "--on-demand-price-per-hour", "14400"]);
    host.start().await;
    let draft = Draft::new(&host, "parent")
        .set("train.max_steps", 12)
        .set("train.save_steps", 4)
        .set("checkpoint_dir", "s3://data/kept");
    let parent = host.complete(&draft).await.job;
    assert_eq!(
        (parent.price_per_hour, parent.on_demand_price_per_hour),
        (Some(7200.0), Some(14400.0))
    );
    let shown = host.cli(draft.folder(), &["get", "parent"]).stdout;
    assert!(shown.contains(", which cost ") && shown.contains(" less than on demand"), "{shown}");
    let card = std::fs::read_to_string(draft.path("out/README.md")).unwrap();
    assert!(card.contains(" s on 1 cpu core, which cost "), "{card}");

    let forked = host.cli(draft.folder(), &["fork", "parent", "--at", "8"]);
    assert_eq!(forked.code, Some(0), "{forked:?}");
    let fork = host.watch(forked.stdout.trim()).await;
    assert_eq!(fork.job.state(), JobState::Completed, "{:?}", fork.finished());
    assert_eq!(fork.resumed()[0].step, 8);
    assert_eq!(fork.job.parent, Some(Parent { job_id: parent.id, step: 8 }));
    let missing = host.cli(draft.folder(), &["fork", "parent", "--at", "5"]);
    assert!(missing.stderr.contains("it has those of steps 4, 8, 12"), "{missing:?}");
}
