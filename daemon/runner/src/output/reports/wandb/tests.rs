use super::*;

fn about(output_dir: &Path) -> About<'_> {
    let Value::Object(config) = json!({"hidden_size": 8, "optim": "sgd"}) else { unreachable!() };
    About {
        job_id: "k25m1ydqsw",
        run_name: "first",
        project: None,
        host: "here",
        output_dir,
        config,
    }
}

fn entry(step: u64, name: &str, value: f64) -> LogEntry {
    LogEntry::from([(name.to_owned(), json!(value)), ("step".to_owned(), json!(step))])
}

/// The history in the only log of a folder: the step and the named value of each row.
fn history(wandb: &Path, name: &str) -> Vec<(u64, Option<f64>)> {
    let folder = folder(wandb, "k25m1ydqsw", Timestamp::default()).unwrap();
    let mut rows = Vec::new();
    let note = |content: &Content| {
        if let Content::History(row) = content {
            let value = |key: &str| row.items.iter().find(|item| item.key == key);
            let step = value(STEP).unwrap().value_json.parse().unwrap();
            rows.push((step, value(name).map(|item| item.value_json.parse().unwrap())));
        }
        true
    };
    RecordLog::open(&folder.join("run-k25m1ydqsw.wandb"), note).unwrap();
    rows
}

#[test]
fn entries_have_the_names_of_the_callback() {
    let entry = LogEntry::from(
        [("loss", 0.5), ("eval_loss", 0.25), ("epoch", 1.0), ("train_loss", 2.0), ("step", 3.0)]
            .map(|(name, value)| (name.to_owned(), json!(value))),
    );
    let (row, of_training) = named(&entry);
    assert_eq!(
        Value::Object(row),
        json!({"train/loss": 0.5, "eval/loss": 0.25, "train/epoch": 1.0, "train/global_step": 3.0})
    );
    assert_eq!(Value::Object(of_training), json!({"train_loss": 2.0}));
}

#[test]
fn attempts_of_a_job_continue_its_history() {
    let output = tempfile::tempdir().unwrap();
    let (wandb, about) = (output.path().join("wandb"), about(output.path()));
    let entries: Vec<LogEntry> = (1..=3).map(|step| entry(step, "loss", step as f64)).collect();
    let mut first = WandbRun::open(&wandb, &about, &[]).unwrap();
    entries.iter().for_each(|entry| first.log(entry).unwrap());
    let start = first.start;
    fs::write(first.folder.join("run-k25m1ydqsw.wandb.synced"), b"").unwrap();
    drop(first);
    // The checkpoint is that of the second step.
    let mut second = WandbRun::open(&wandb, &about, &entries[..2]).unwrap();
    assert_eq!((second.start, second.rows), (start, 2));
    assert!(!second.folder.join("run-k25m1ydqsw.wandb.synced").exists());
    second.log(&entry(3, "eval_loss", 0.5)).unwrap();
    second.finish().unwrap();
    assert_eq!(history(&wandb, "train/loss"), [(1, Some(1.0)), (2, Some(2.0)), (3, None)]);
    assert_eq!(second.summary["train/loss"], 2.0);
    assert_eq!(fs::read_dir(&wandb).unwrap().count(), 1);
}

#[test]
fn a_run_without_a_log_begins_with_what_the_job_has_logged() {
    let output = tempfile::tempdir().unwrap();
    let (wandb, about) = (output.path().join("wandb"), about(output.path()));
    let entries = [entry(1, "loss", 1.0), entry(2, "loss", 0.5)];
    drop(WandbRun::open(&wandb, &about, &entries).unwrap());
    assert_eq!(history(&wandb, "train/loss"), [(1, Some(1.0)), (2, Some(0.5))]);
    let folder = folder(&wandb, about.job_id, Timestamp::default()).unwrap();
    let config = fs::read_to_string(folder.join("files/config.yaml")).unwrap();
    assert_eq!(config, "\"hidden_size\":\n  value: 8\n\"optim\":\n  value: \"sgd\"\n");
}

#[test]
fn dates_have_leap_years() {
    let compact = |seconds| compact(Timestamp { seconds, nanos: 7 });
    assert_eq!(compact(0), "19700101_000000");
    assert_eq!(compact(951_782_399), "20000228_235959");
    assert_eq!(compact(951_782_400), "20000229_000000");
    assert_eq!(compact(1_795_466_716), "20261123_204516");
    assert_eq!(compact(4_107_542_399), "21000228_235959");
    assert_eq!(compact(4_107_542_400), "21000301_000000");
}
