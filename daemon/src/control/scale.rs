//! Figures of a long queue: `cargo test -p traind --lib -- --ignored --nocapture queue_figures`, with the
//! lengths of the queue in `TRAIND_QUEUE`.

use std::collections::HashSet;
use std::time::Instant;

use traind_job_file::JobFile;

use super::dispatch::{Withheld, decide};
use super::folders_in_use::FoldersInUse;
use crate::jobs::store::{NewJob, Store};
use crate::settings::Settings;

/// Submissions that are measured.
const SUBMISSIONS: usize = 200;

struct Figures {
    folder: tempfile::TempDir,
    store: Store,
    folders: FoldersInUse,
    template: JobFile,
    jobs: usize,
}

impl Figures {
    fn new() -> Figures {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open_draft(&folder.path().join("traind.db")).unwrap();
        let text = "{name: a, model: {name_or_path: ./a, task: masked-lm}, \
                    data: {train: a.csv}, output_dir: out}";
        let template = JobFile::parse(text, folder.path()).unwrap().job;
        Figures { folder, store, folders: FoldersInUse::default(), template, jobs: 0 }
    }

    fn submit(&mut self) {
        self.jobs += 1;
        let output_dir = self.folder.path().join(format!("out-{}", self.jobs));
        let job = JobFile { output_dir: output_dir.clone(), ..self.template.clone() };
        let new = NewJob {
            id: format!("{:010}", self.jobs),
            owner: "ann".into(),
            platform: "cpu".into(),
            core_count: 1,
            output_dir: output_dir.display().to_string(),
            resolved: serde_json::to_string(&job).unwrap(),
            ..NewJob::default()
        };
        let reservation = self.folders.reserve(&self.store, &job, None).unwrap();
        self.store.create(&new).unwrap();
        reservation.keep(&new.id);
    }

    fn pass(&self, settings: &Settings) {
        let decision =
            decide(&self.store, settings, &HashSet::new(), &Withheld::default()).unwrap();
        self.store.wait(&decision.waiting).unwrap();
    }

    fn report(&mut self, length: usize, settings: &Settings) {
        while self.jobs + SUBMISSIONS < length {
            self.submit();
        }
        let since = Instant::now();
        (0..SUBMISSIONS).for_each(|_| self.submit());
        let submission = since.elapsed().as_secs_f64() * 1e3 / SUBMISSIONS as f64;
        self.pass(settings);
        let time = |work: &dyn Fn()| {
            let since = Instant::now();
            work();
            since.elapsed().as_secs_f64() * 1e3
        };
        let pass = time(&|| self.pass(settings));
        let page = time(&|| drop(self.store.list(&[], None, i64::MAX, 101).unwrap()));
        let scrape = time(&|| {
            self.store.count_by_state().unwrap();
            self.store.unfinished().unwrap();
            self.store.billed().unwrap();
        });
        println!(
            "{length} waiting: submission {submission:.2} ms, pass {pass:.1} ms, \
             page of ls {page:.1} ms, scrape {scrape:.1} ms"
        );
    }
}

#[test]
#[ignore = "prints figures"]
fn queue_figures() {
    let lengths = std::env::var("TRAIND_QUEUE").unwrap_or_else(|_| "1000 10000 100000".into());
    let mut figures = Figures::new();
    for length in lengths.split(' ') {
        figures.report(length.parse().unwrap(), &Settings::example());
    }
}
