//! Files to a [`TokenizedSet`]: from the cache if it holds one for this very content, else by
//! reading and tokenizing, in parallel on the rayon pool of the calling thread.

mod array;
mod blocks;
mod build;
mod cache;
mod identity;
mod images;
mod packing;
mod rows;
mod set;
mod split;
mod targets;
#[cfg(test)]
mod tests;
mod tokens;
mod unfinished;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

pub use set::{FileRows, TokenizedSet};

use crate::{Error, Files, Result, Source, TaskSpec, TextTokenizer};
use build::build;
use cache::{Cache, Lookup};
use identity::Identity;
use unfinished::Unfinished;

/// The set to prepare.
#[derive(Clone, Debug)]
pub struct DatasetOptions {
    pub files: Files,
    pub task: TaskSpec,
    /// Tokenized sets are kept in `<cache_dir>/tokens`; None keeps none, and the tokens lie in
    /// files without names in the folder for temporary ones.
    pub cache_dir: Option<PathBuf>,
}

/// A set, ready to be sampled.
#[derive(Clone, Debug)]
pub struct Prepared {
    pub set: Arc<TokenizedSet>,
    pub cache_hit: bool,
    /// Faults that did not prevent the set, such as a corrupt cache entry.
    pub warnings: Vec<String>,
    pub duration: Duration,
}

/// Reads and tokenizes the files, or finds them already tokenized. Memory does not grow with the
/// texts: the tokens go to disk.
///
/// The result depends on the contents of the files, the task and the tokenizer alone; so does the
/// first error, which is that of the first bad row in data set order.
pub fn prepare(options: &DatasetOptions, tokenizer: &dyn TextTokenizer) -> Result<Prepared> {
    prepare_watched(options, tokenizer, &mut |_| true)
}

/// The same for sets that take long: calls `watch` with the number of rows tokenized, every few
/// thousand rows. It returns false to stop with [`Error::Abandoned`].
pub fn prepare_watched(
    options: &DatasetOptions,
    tokenizer: &dyn TextTokenizer,
    watch: &mut dyn FnMut(u64) -> bool,
) -> Result<Prepared> {
    let start = Instant::now();
    options.task.preprocessor().check(tokenizer)?;
    let source = Source::open(&options.files)?;
    source.require_columns(&options.task.columns_among(source.columns()))?;
    let mut warnings = Vec::new();
    let (set, cache_hit) = match &options.cache_dir {
        None => (without_cache(&source, options, tokenizer, watch)?, false),
        Some(cache_dir) => {
            let identity = Identity::of(&source, options, tokenizer)?;
            let cache = Cache::new(cache_dir, &identity.key, &options.task);
            let locks = &options.files.fetch.locks;
            match cache.load(&source, locks) {
                Lookup::Found(set) => (*set, true),
                missing => {
                    warnings.extend(missing.warning());
                    let folder = Unfinished::create(&cache_dir.join(cache::FOLDER))?;
                    let built = build(&source, &options.task, tokenizer, folder.path(), watch)?;
                    identity.check_unchanged(&source)?;
                    // The set that was built is usable without the cache.
                    let stored = cache.store(&built, folder, locks);
                    let warning = |error: Error| format!("tokens were not cached: {error}");
                    warnings.extend(stored.err().map(warning));
                    (built.set, false)
                }
            }
        }
    };
    Ok(Prepared { set: Arc::new(set), cache_hit, warnings, duration: start.elapsed() })
}

/// The folder of the arrays is removed once they are built; the set keeps their files open.
fn without_cache(
    source: &Source,
    options: &DatasetOptions,
    tokenizer: &dyn TextTokenizer,
    watch: &mut dyn FnMut(u64) -> bool,
) -> Result<TokenizedSet> {
    let folder = tempfile::tempdir().map_err(Error::store(&std::env::temp_dir()))?;
    Ok(build(source, &options.task, tokenizer, folder.path(), watch)?.set)
}
