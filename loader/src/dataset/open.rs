//! A set whose files are open: it is read from the cache, or made of the files as a whole, after
//! those of its rows that a run needs first.

use std::path::Path;
use std::time::Instant;

use super::build::{Making, build};
use super::cache::{self, Cache, Lookup};
use super::identity::Identity;
use super::mixture::{Mixture, Sources};
use super::unfinished::Unfinished;
use super::{DatasetOptions, Prepared, TokenizedSet, preview};
use crate::error::{Error, Result};
use crate::source::Source;
use crate::tokenize::TextTokenizer;

/// A set that was looked up in the cache.
pub struct OpenSet {
    options: DatasetOptions,
    sources: Sources,
    /// None where sets are not kept.
    entry: Option<Entry>,
    found: Option<TokenizedSet>,
    warnings: Vec<String>,
    opened: Instant,
}

/// The place of a set in the cache.
struct Entry {
    identity: Identity,
    cache: Cache,
}

impl OpenSet {
    /// Opens the files and checks that they have the task's columns.
    pub fn open(options: &DatasetOptions, tokenizer: &dyn TextTokenizer) -> Result<Self> {
        Self::open_mixture(options, &options.files.clone().into(), tokenizer)
    }

    /// Opens the files of several sets, in place of those of `options`.
    pub fn open_mixture(
        options: &DatasetOptions,
        mixture: &Mixture,
        tokenizer: &dyn TextTokenizer,
    ) -> Result<Self> {
        let opened = Instant::now();
        // Settings are at fault before files are; rows of tokens need fewer of them.
        let checked = options.task.preprocessor().check(tokenizer);
        let (sources, task) = match Sources::open(mixture, &options.task, options.token_limits) {
            Ok(opened) => opened,
            Err(error) => return Err(checked.err().unwrap_or(error)),
        };
        task.preprocessor().check(tokenizer)?;
        let options = DatasetOptions { task, ..options.clone() };
        let entry = Entry::of(&sources, &options, tokenizer)?;
        let lookup = entry.as_ref().map(|it| it.cache.load(&sources, &options.files.fetch.locks));
        let (found, warning) = match lookup {
            Some(Lookup::Found(set)) => (Some(*set), None),
            missing => (None, missing.and_then(Lookup::warning)),
        };
        let empty = sources.sources().flat_map(Source::empty_files);
        let empty = empty.map(|file| format!("{}: the file is empty", file.display()));
        let warnings = empty.chain(warning).collect();
        Ok(Self { options, sources, entry, found, warnings, opened })
    }

    /// The first file and its column of labels, where the task could have such and reads none.
    pub fn unread_label(&self) -> Option<(&Path, &str)> {
        let source = self.sources.sources().next()?;
        let column = self.options.task.unread_label(source.columns())?;
        Some((source.files().next()?, column))
    }

    /// Returns true if the set is in the cache.
    pub fn is_tokenized(&self) -> bool {
        self.found.is_some()
    }

    /// A hash of the contents of the files; None where sets are not kept.
    pub fn content(&self) -> Option<&str> {
        self.entry.as_ref().map(|entry| entry.identity.content.as_str())
    }

    /// Returns true if [`Self::preview`] takes much less time than [`Self::prepare`].
    pub fn has_previews(&self) -> bool {
        self.sources.plain().is_some() && self.options.task.preprocessor().has_outlines()
    }

    /// The set without the tokens of rows other than those that `choose` returns for the number of
    /// rows: their lengths are 0. None where it returns none.
    ///
    /// Everything else, labels included, is that of the whole set.
    pub fn preview(
        &self,
        tokenizer: &dyn TextTokenizer,
        choose: &mut dyn FnMut(usize) -> Option<Vec<u32>>,
        watch: &mut dyn FnMut(u64) -> bool,
    ) -> Result<Option<TokenizedSet>> {
        let (sources, task) = (&self.sources, &self.options.task);
        let Some(source) = sources.plain() else { return Ok(None) };
        let folder = self.folder()?;
        let outlines = build(sources, task, Making::Outlines, tokenizer, folder.path(), watch)?.set;
        let Some(rows) = choose(outlines.len()) else { return Ok(None) };
        drop(folder);
        let folder = self.folder()?;
        preview::with_tokens(outlines, source, &rows, tokenizer, folder.path()).map(Some)
    }

    /// Reads and tokenizes all rows, unless the set was in the cache, where it is stored. For
    /// `watch`, see [`super::prepare_watched`].
    pub fn prepare(
        mut self,
        tokenizer: &dyn TextTokenizer,
        watch: &mut dyn FnMut(u64) -> bool,
    ) -> Result<Prepared> {
        let cache_hit = self.found.is_some();
        let mut set = match self.found.take() {
            Some(set) => set,
            None => self.build(tokenizer, watch)?,
        };
        // Files beside the rows do not decide which set it is, so they are those of today.
        set.about.warnings.extend(self.sources.left_out());
        let (warnings, duration) = (self.warnings, self.opened.elapsed());
        Ok(Prepared { set: set.into(), cache_hit, warnings, duration })
    }

    fn build(
        &mut self,
        tokenizer: &dyn TextTokenizer,
        watch: &mut dyn FnMut(u64) -> bool,
    ) -> Result<TokenizedSet> {
        let (sources, task, folder) = (&self.sources, &self.options.task, self.folder()?);
        let mut built = build(sources, task, Making::Examples, tokenizer, folder.path(), watch)?;
        built.set.about.warnings.extend(sources.warnings());
        let Some(Entry { identity, cache }) = &self.entry else { return Ok(built.set) };
        identity.check_unchanged(sources)?;
        // The set that was built is usable without the cache.
        let stored = cache.store(&built, folder, &self.options.files.fetch.locks);
        let warning = |error: Error| format!("tokens were not cached: {error}");
        self.warnings.extend(stored.err().map(warning));
        Ok(built.set)
    }

    /// A folder for arrays, which is removed once they are built: sets keep their files open.
    fn folder(&self) -> Result<Unfinished> {
        match &self.options.cache_dir {
            Some(cache_dir) => Unfinished::create(&cache_dir.join(cache::FOLDER)),
            None => Unfinished::temporary(),
        }
    }
}

impl Entry {
    fn of(
        sources: &Sources,
        options: &DatasetOptions,
        tokenizer: &dyn TextTokenizer,
    ) -> Result<Option<Self>> {
        let Some(cache_dir) = &options.cache_dir else { return Ok(None) };
        let identity = Identity::of(sources, options, tokenizer)?;
        let cache = Cache::new(cache_dir, &identity.key, &options.task);
        Ok(Some(Self { identity, cache }))
    }
}
