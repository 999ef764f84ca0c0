//! Files to a [`TokenizedSet`]: from the cache if it holds one for this very content, else by
//! reading and tokenizing, in parallel on the rayon pool of the calling thread.

mod blocks;
mod build;
mod cache;
mod identity;
mod labels;
mod set;
mod split;
#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

pub use labels::Labels;
pub use set::{FileRows, TokenizedSet};

use crate::{Files, Result, Source, TaskSpec, TextTokenizer};
use cache::{Cache, Lookup};
use identity::Identity;

/// What to prepare.
#[derive(Clone, Debug)]
pub struct DatasetOptions {
    pub files: Files,
    pub task: TaskSpec,
    /// Tokenized sets are kept in `<cache_dir>/tokens`; None keeps none.
    pub cache_dir: Option<PathBuf>,
}

/// A set, ready to be sampled.
#[derive(Clone, Debug)]
pub struct Prepared {
    pub set: Arc<TokenizedSet>,
    pub cache_hit: bool,
    /// What did not go well and did not matter: a corrupt cache entry, a full disk.
    pub warnings: Vec<String>,
    pub duration: Duration,
}

/// Reads and tokenizes the files, or finds them already tokenized.
///
/// The result depends on the contents of the files, the task and the tokenizer alone; so does the
/// first error, which is that of the first bad row in data set order.
pub fn prepare(options: &DatasetOptions, tokenizer: &dyn TextTokenizer) -> Result<Prepared> {
    let start = Instant::now();
    options.task.task().check(tokenizer)?;
    let source = Source::open(&options.files)?;
    source.require_columns(&options.task.columns())?;
    let mut warnings = Vec::new();
    let (set, cache_hit) = match &options.cache_dir {
        None => (build::build(&source, &options.task, tokenizer)?, false),
        Some(cache_dir) => {
            let identity = Identity::of(&source, options, tokenizer)?;
            let cache = Cache::new(cache_dir, &identity.key);
            match cache.load(&source) {
                Lookup::Found(set) => (*set, true),
                missing => {
                    warnings.extend(missing.warning());
                    let set = build::build(&source, &options.task, tokenizer)?;
                    identity.check_unchanged(&source)?;
                    warnings.extend(cache.store(&set).err());
                    (set, false)
                }
            }
        }
    };
    Ok(Prepared { set: Arc::new(set), cache_hit, warnings, duration: start.elapsed() })
}
