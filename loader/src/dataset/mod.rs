//! Files to a [`TokenizedSet`]: from the cache if it holds one for this very content, else by
//! reading and tokenizing, in parallel on the rayon pool of the calling thread.

mod array;
mod blocks;
mod build;
mod cache;
mod continuations;
#[cfg(test)]
mod formats;
mod identity;
mod images;
mod left_out;
mod mixture;
mod open;
mod packing;
mod preview;
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
use std::time::Duration;

pub use array::{TextVectors, TextVectorsWriter, VectorSizes};
pub(crate) use continuations::Continuation;
use mixture::Sources;
pub use mixture::{Checked, MixedSet, Mixing, Mixture, SplitPart, SplitRange, TokenLengths};
pub use open::OpenSet;
pub use set::{FileRows, TokenizedSet};

#[cfg(doc)]
use crate::error::Error;
use crate::error::Result;
use crate::source::Files;
use crate::tasks::{KnownTokenizer, TaskSpec};
use crate::token_row::TokenLimits;
use crate::tokenize::TextTokenizer;

/// The set to prepare.
#[derive(Clone, Debug)]
pub struct DatasetOptions {
    /// The files, and how their rows are read.
    pub files: Files,
    /// The task, which makes a model's rows of them.
    pub task: TaskSpec,
    /// The most tokens of rows that are tokenized already.
    pub token_limits: TokenLimits,
    /// Tokenized sets are kept in `<cache_dir>/tokens`; None keeps none, and the tokens lie in
    /// files without names in the folder for temporary ones.
    pub cache_dir: Option<PathBuf>,
}

/// A set, ready to be sampled.
#[derive(Clone, Debug)]
pub struct Prepared {
    /// The tokenized set.
    pub set: Arc<TokenizedSet>,
    /// Whether an earlier run had prepared it.
    pub cache_hit: bool,
    /// Faults that did not prevent the set, such as a corrupt cache entry or an empty file. Those of rows
    /// are in the set.
    pub warnings: Vec<String>,
    /// The time that preparing it took.
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

/// Opens files as [`prepare`] does, and returns its error where they lack columns of the task, have no rows, or none
/// with its texts, and where a row cannot become an example, as far as that is `known` of the tokenizer. Reads all rows
/// of small files, and of others headers and first rows, and JSON as a whole for its keys. With `has_rule`, the task
/// has the rule of labels, or these files make it, so that classes without an id are found.
pub fn check_files(
    mixture: &Mixture,
    task: &TaskSpec,
    known: KnownTokenizer,
    has_rule: bool,
) -> Result<Checked> {
    Sources::check(mixture, task, known, has_rule)
}

/// Returns the error of [`prepare`] where no row makes an example, for files that [`check_files`] found to need their
/// tokens. Reads rows up to the first that makes one, and writes nothing.
pub fn require_example(
    mixture: &Mixture,
    task: &TaskSpec,
    tokenizer: &dyn TextTokenizer,
    limits: TokenLimits,
) -> Result<()> {
    mixture::require_example(mixture, task, tokenizer, limits)
}

/// Prepares a set that takes long: calls `watch` with the number of rows tokenized, every few thousand rows. It returns
/// false to stop with [`Error::Abandoned`].
pub fn prepare_watched(
    options: &DatasetOptions,
    tokenizer: &dyn TextTokenizer,
    watch: &mut dyn FnMut(u64) -> bool,
) -> Result<Prepared> {
    OpenSet::open(options, tokenizer)?.prepare(tokenizer, watch)
}
