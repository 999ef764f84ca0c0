//! The vectors of the model that guides a loss of embeddings. They are computed once, on the cores and before these
//! have the trained model, and stand in the run folder, so that a run that resumes reads the same ones.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use traind_job_file::JobFile;
use traind_loader::{
    Error as LoaderError, HuggingFaceTokenizer, TextVectors, TextVectorsWriter, TokenizedSet,
};
use traind_wording::counted;
use traind_xla::runtime::LocalCores;

use super::Context;
use super::inputs::{Beginning, Inputs};
use crate::data::Split;
use crate::error::{RunError, RunResult};
use crate::hosts::Hosts;
use crate::model::Processor;
use crate::model::guide::{GuideConfig, jobs_of_guide, named, with_width};
use crate::output::failed;
use crate::recipe;
use crate::reporting::{Journal, Reporter};
use crate::state::StartValues;

/// The folder in the run folder.
const FOLDER: &str = "guide";

/// The context of a run that knows the length of its guide's vectors.
pub(super) fn known(context: &Context) -> RunResult<Context> {
    let mut context = context.clone();
    let guide = GuideConfig::open(&context.spec.job, &context.downloads())?;
    context.spec.job = with_width(context.spec.job.clone(), guide.as_ref());
    Ok(context)
}

/// Puts the guide's vectors beside the texts of the splits whose loss it guides.
pub(super) fn embed(context: &Context, cores: &LocalCores, inputs: &mut Inputs) -> RunResult<()> {
    for job in jobs_of_guide(&context.spec.job)? {
        Guide::open(context, job, cores, inputs.max_length)
            .and_then(|guide| guide.embed(context, cores, inputs))
            .map_err(named)?;
    }
    Ok(())
}

/// Removes the vectors of a run that is complete.
pub(super) fn remove(context: &Context) {
    // What is left behind takes room and nothing else.
    let _ = std::fs::remove_dir_all(context.run_dir.join(FOLDER));
}

/// The guide with the rows that it embeds.
struct Guide {
    context: Context,
    inputs: Inputs,
}

impl Guide {
    /// Tokenizes the rows of `job`, whose texts are cut to at most `max_length` tokens, as those of the trained model.
    /// A guide with another vocabulary, or with shorter texts, reads what the trained model's tokens are as text, as
    /// that of `GISTEmbedLoss`.
    fn open(
        context: &Context,
        mut job: JobFile,
        cores: &LocalCores,
        max_length: u32,
    ) -> RunResult<Guide> {
        job.resources.cores = cores.len() as u32;
        let folder = context.run_dir.join(FOLDER);
        std::fs::create_dir_all(&folder).map_err(failed("create", &folder))?;
        let mut own = Context {
            reporter: Reporter {
                journal: Journal::open(&folder.join("events.log"))?,
                activity: context.reporter.activity.clone(),
            },
            // Each host embeds all rows.
            hosts: Hosts::alone(),
            run_dir: folder,
            ..context.clone()
        };
        own.spec.job = job;
        let mesh = recipe::mesh(&own.spec.job)?;
        let (processor, own_length) = Inputs::processor(&own)?;
        let first = trained_tokenizer(context, processor, own_length < max_length)?;
        let limit = if first.is_some() { own_length } else { own_length.min(max_length) };
        own.spec.job.data.max_length = Some(limit);
        let inputs = Inputs::read_behind(first, &own, mesh, None, Beginning::AllRows)?;
        Ok(Guide { context: own, inputs })
    }

    fn embed(self, context: &Context, cores: &LocalCores, trained: &mut Inputs) -> RunResult<()> {
        let Guide { context: mut own, inputs } = self;
        // The cores need nothing of training.
        own.spec.job.train.do_train = false;
        let start = inputs.start_values(&own)?;
        let missing = open_vectors(&own, &inputs, &start, &context.spec.job, trained)?;
        if missing.is_empty() {
            return Ok(());
        }
        let (journal, began) = (&context.reporter.journal, Instant::now());
        let texts = |(split, _): &(Split, Vectors)| split.set.len() * split.set.sequences_per_row();
        let texts = counted(missing.iter().map(texts).sum::<usize>(), "text");
        journal.info(format!("The guide embeds {texts}, once for all epochs"))?;
        let mesh = inputs.mesh.clone();
        let of_guide =
            LocalCores::of_host(cores.client().clone(), mesh)?.with_traits(cores.traits());
        let evaluators = missing.iter().map(|(split, _)| {
            let unlabelled = Split { labelled: false, ..split.clone() };
            let evaluator = inputs.evaluator(&own, Some(unlabelled))?;
            evaluator.ok_or_else(|| RunError::Panicked("a split has no evaluator".to_owned()))
        });
        let evaluators = evaluators.collect::<RunResult<Vec<_>>>()?;
        let mut session = inputs.session(&own, of_guide, [&None, &None])?;
        let programs: Vec<_> = evaluators.iter().flat_map(|it| it.programs()).collect();
        session.prepare(&programs, || Ok(()))?;
        session.start(&start)?;
        for ((split, vectors), evaluator) in missing.iter().zip(&evaluators) {
            let writer = vectors.begin()?;
            evaluator.each_row(&mut session, |row, values| {
                if context.stop.reason().is_some() {
                    return Err(LoaderError::Abandoned.into());
                }
                vectors.put(&writer, row as usize, values)
            })?;
            let written = writer.finish(&vectors.identity)?;
            if let Some(of_model) = trained.splits.named_mut(split.name) {
                of_model.set = Arc::new(vectors.set.with_vectors(written));
            }
        }
        let seconds = began.elapsed().as_secs_f64();
        Ok(journal.info(format!("The guide has embedded {texts} in {seconds:.1} s"))?)
    }
}

/// Gives the splits of the trained model their vectors. Returns the splits of the guide whose vectors are still to be
/// computed.
fn open_vectors(
    own: &Context,
    inputs: &Inputs,
    start: &StartValues,
    job: &JobFile,
    trained: &mut Inputs,
) -> RunResult<Vec<(Split, Vectors)>> {
    let mut missing = Vec::new();
    let splits = &inputs.splits;
    for split in [&splits.train, &splits.validation, &splits.test].into_iter().flatten() {
        let Some(of_model) = trained.splits.named_mut(split.name) else { continue };
        let vectors = Vectors {
            folder: own.run_dir.join(split.name),
            identity: identity(start, &split.set)?,
            set: Arc::clone(&of_model.set),
            rows: rows_of(&of_model.set, &split.set, job)?,
            width: job.embedding.guide_width.unwrap_or(1) as usize,
        };
        match vectors.open() {
            Some(found) => of_model.set = Arc::new(of_model.set.with_vectors(found)),
            None => missing.push((split.clone(), vectors)),
        }
    }
    Ok(missing)
}

/// The tokenizer of the trained model, where the guide reads its tokens as text: where that of the guide, which `guide`
/// has, is another one, or the guide has `shorter` texts.
fn trained_tokenizer(
    context: &Context,
    guide: Processor,
    shorter: bool,
) -> RunResult<Option<Arc<HuggingFaceTokenizer>>> {
    let (trained, _) = Inputs::processor(context)?;
    let tokenizers = trained.into_tokenizer().zip(guide.into_tokenizer());
    let differs = |guide: &HuggingFaceTokenizer, trained: &HuggingFaceTokenizer| {
        shorter || !guide.has_vocabulary_of(trained)
    };
    Ok(tokenizers.filter(|(trained, guide)| differs(guide, trained)).map(|(trained, _)| trained))
}

/// The vectors of a split.
struct Vectors {
    folder: PathBuf,
    /// A hash of the guide and of the texts as it reads them.
    identity: String,
    /// The rows that are trained on or evaluated.
    set: Arc<TokenizedSet>,
    /// The row of that set that each row of the guide is.
    rows: Vec<usize>,
    width: usize,
}

impl Vectors {
    fn open(&self) -> Option<TextVectors> {
        TextVectors::open(&self.folder, &self.identity, self.set.vector_sizes(self.width))
    }

    fn begin(&self) -> RunResult<TextVectorsWriter> {
        Ok(TextVectorsWriter::create(&self.folder, self.set.vector_sizes(self.width))?)
    }

    /// Puts the vectors of a row of the guide, which may have fewer texts than the longest of all sets.
    fn put(&self, writer: &TextVectorsWriter, row: usize, values: &[f32]) -> RunResult<()> {
        let mut values = values.to_vec();
        values.resize(self.set.sequences_per_row() * self.width, 0.0);
        Ok(writer.put(self.rows[row], &values)?)
    }
}

/// The row of `trained` that each row of `guided` is: all, or those of the sets whose loss has a guide. Fails where
/// they are not the same rows of the files.
fn rows_of(trained: &TokenizedSet, guided: &TokenizedSet, job: &JobFile) -> RunResult<Vec<usize>> {
    let by_sets = !trained.texts_of_sets().is_empty();
    let has_guide: Vec<bool> =
        job.embedding_sets().iter().map(|(settings, _)| settings.has_guide()).collect();
    let sets = if by_sets { trained.sets_of_rows() } else { Vec::new() };
    let is_guided =
        |row: &usize| !by_sets || has_guide.get(sets[*row] as usize).copied().unwrap_or(false);
    let rows: Vec<usize> = (0..trained.len()).filter(is_guided).collect();
    let origin = |set: &TokenizedSet, row: usize| set.origin(row).map(|it| (it.file, it.row));
    let differ = rows.len() != guided.len()
        || rows.iter().enumerate().any(|(at, row)| origin(trained, *row) != origin(guided, at));
    match differ {
        true => Err(RunError::Panicked("the guide reads other rows than the model".to_owned())),
        false => Ok(rows),
    }
}

/// A hash of the guide's weights and of the tokens of its texts.
fn identity(start: &StartValues, set: &TokenizedSet) -> RunResult<String> {
    let mut hasher = blake3::Hasher::new();
    for array in &start.parameters {
        hasher.update(array.bytes());
    }
    for row in 0..set.len() {
        for ids in set.sequences(row)? {
            hasher.update(&(ids.len() as u64).to_le_bytes());
            for id in ids {
                hasher.update(&id.to_le_bytes());
            }
        }
    }
    Ok(hasher.finalize().to_hex().to_string())
}
