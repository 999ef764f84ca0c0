//! Generates the texts of a split's rows, as `Seq2SeqTrainer` does with `predict_with_generate`.

use std::path::Path;
use std::sync::Arc;

use prost::Message;
use serde_json::{Map, Value};
use traind_job_file::{JobFile, Train};
use traind_loader::{
    ArrayValues, BatchAxis, BatchSizes, Collator, CoreBatch, GatherInOrder, HostBatch,
    HuggingFaceTokenizer, NO_TARGET, Prefetched, Prefetcher, Sampler, TokenizedSet,
};
use traind_models::{Error as ModelError, Model};
use traind_xla::DType;

use super::collected::Collected;
use crate::data::Split;
use crate::decoding::{GenerationSettings, Generator, ShardRows};
use crate::error::{RunError, RunResult};
use crate::hosts::Hosts;
use crate::model::OpenModel;
use crate::recipe;
use crate::session::Session;
use crate::step::{GenerateStep, Program, ProgramShape};
use crate::tasks::Texts;

/// Slots of texts are a multiple of this.
const SLOTS_STEP: usize = 8;

/// Writes texts with the job's model.
#[derive(Clone)]
pub(crate) struct TextWriter {
    generator: Generator,
    step: GenerateStep,
    tokenizer: Arc<HuggingFaceTokenizer>,
    slots: usize,
    /// The token that does not count in `gen_len`.
    pad_token_id: u32,
    /// 1 where the token that a text begins with counts.
    start_tokens: usize,
}

impl TextWriter {
    /// Returns `None` where the job does not generate (`predict_with_generate`).
    pub(crate) fn of_job(
        job: &JobFile,
        open: &OpenModel,
        tokenizer: Arc<HuggingFaceTokenizer>,
        pad_token_id: u32,
    ) -> RunResult<Option<TextWriter>> {
        let Some(Writing { generator, step, start, length }) =
            Writing::of_job(job, &open.model, &open.folder)?
        else {
            return Ok(None);
        };
        let slots = length.next_multiple_of(SLOTS_STEP).min(open.model.max_positions());
        let start_tokens = usize::from(pad_token_id != start);
        Ok(Some(TextWriter { generator, step, tokenizer, slots, pad_token_id, start_tokens }))
    }

    /// A warning that texts are not as long as the model's own settings demand.
    pub(crate) fn warning(&self) -> Option<String> {
        self.generator.warning(1)
    }

    /// The passes that generate, without their caches.
    pub(crate) fn step(&self) -> &GenerateStep {
        &self.step
    }

    /// The programs for batches of `sizes`.
    pub(crate) fn programs(
        &self,
        sizes: impl IntoIterator<Item = BatchSizes>,
    ) -> Vec<ProgramShape> {
        let sizes = sizes.into_iter().map(|sizes| self.sizes(sizes));
        let passes = [Program::Prefill, Program::Decode];
        sizes
            .flat_map(|sizes| passes.map(|program| ProgramShape::of_batch(program, sizes)))
            .collect()
    }

    /// Generates the text of each row of a split. The first of several hosts returns the texts.
    pub(super) fn write(
        &self,
        session: &mut Session,
        hosts: &Hosts,
        split: &Split,
        sampler: &Sampler,
        collator: &Collator,
    ) -> RunResult<Texts> {
        let mut collected = Collected::new();
        let batches = sampler.run(0, sampler.batches_per_epoch() as u64);
        let batches = collator.clone().collate_all(batches);
        let keep = |host: HostBatch| -> RunResult<HostBatch> { Ok(host) };
        for prefetched in Prefetcher::spawn(batches, keep)? {
            let Prefetched { batch, .. } = prefetched?;
            let plan = &batch.scheduled.plan;
            let shards = batch.shards.clone().zip(&batch.cores).map(|(shard, core)| {
                let numbers = plan.rows_of_core(shard).iter().map(|row| u64::from(*row));
                shard_rows(core, numbers.collect())
            });
            let shards = shards.collect::<RunResult<Vec<_>>>()?;
            let sizes = self.sizes(plan.sizes);
            session.start_cache(&sizes)?;
            let generated = self.generator.generate(session, sizes, &shards)?;
            collected.add(&batch, generated.into_iter().map(GeneratedTexts::of));
        }
        session.clear_caches();
        let mut tokens = GatherInOrder::new(split.set.len());
        collected.finish(hosts, |plan, shards| {
            for (shard, texts) in shards.into_iter().enumerate() {
                tokens.place(plan, shard, texts.texts.into_iter().map(|text| text.tokens))?;
            }
            Ok(())
        })?;
        match hosts.is_first() {
            true => self.texts(&split.set, split.labelled, &tokens.finish()?),
            false => Ok(Texts::default()),
        }
    }

    /// The shape of the passes for a batch: its targets have the slots of a text.
    fn sizes(&self, batch: BatchSizes) -> BatchSizes {
        batch.with(BatchAxis::TargetPositions, self.slots as u32)
    }

    fn texts(&self, set: &TokenizedSet, labelled: bool, tokens: &[Vec<u32>]) -> RunResult<Texts> {
        let pad = self.pad_token_id;
        let length = |text: &Vec<u32>| text.iter().filter(|token| **token != pad).count();
        let lengths = tokens.iter().map(|text| self.start_tokens + length(text)).sum();
        let predictions = tokens.iter().map(|text| self.decode(text)).collect::<RunResult<_>>()?;
        let references = (0..set.len()).filter(|_| labelled);
        let references = references.map(|row| {
            let mut tokens = set.target_ids(row)?;
            tokens.retain(|token| *token != NO_TARGET);
            self.decode(&tokens)
        });
        Ok(Texts { predictions, references: references.collect::<RunResult<_>>()?, lengths })
    }

    fn decode(&self, tokens: &[u32]) -> RunResult<String> {
        let text = self.tokenizer.decode(tokens).map_err(RunError::Decode)?;
        Ok(text.trim().to_owned())
    }
}

/// Fails where the settings of a job's texts cannot work with its model, whose folder has `generation_config.json`.
pub(crate) fn check_generation(job: &JobFile, model: &Arc<Model>, folder: &Path) -> RunResult<()> {
    Writing::of_job(job, model, folder).map(drop)
}

/// The settings of texts by the job and the model's folder.
struct Writing {
    generator: Generator,
    step: GenerateStep,
    /// The token that a text begins with.
    start: u32,
    /// The most tokens of a text.
    length: usize,
}

impl Writing {
    /// Returns `None` where the job does not generate.
    fn of_job(job: &JobFile, model: &Arc<Model>, folder: &Path) -> RunResult<Option<Writing>> {
        let train = &job.train;
        if !train.predict_with_generate || train.prediction_loss_only {
            return Ok(None);
        }
        let given = given(train);
        let read = || -> RunResult<Writing> {
            let settings = GenerationSettings::of_model(model.config(), folder, &given)?;
            let start = settings.decoder_start()?;
            let dtype = recipe::compute_dtype(train);
            let step = GenerateStep::new(Arc::clone(model), dtype, settings.num_beams)?;
            let generator = Generator::new(settings, &step, train.seed)?;
            let length = generator.slots(1)?;
            Ok(Writing { generator, step, start, length })
        };
        read().map(Some).map_err(|error| of_field(error, &given))
    }
}

/// The settings that a job gives, by the names of `generation_config.json`.
fn given(train: &Train) -> Map<String, Value> {
    let own =
        [("max_length", train.generation_max_length), ("num_beams", train.generation_num_beams)];
    let own = own.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?.into())));
    train.generation_config.given().into_iter().chain(own).collect()
}

/// The fields of a job file that give settings of generation, by the names of `generation_config.json`.
const FIELDS: [(&str, &str); 16] = [
    ("max_length", "train.generation_max_length"),
    ("num_beams", "train.generation_num_beams"),
    ("early_stopping", "train.generation_config.early_stopping"),
    ("length_penalty", "train.generation_config.length_penalty"),
    ("no_repeat_ngram_size", "train.generation_config.no_repeat_ngram_size"),
    ("repetition_penalty", "train.generation_config.repetition_penalty"),
    ("min_length", "train.generation_config.min_length"),
    ("min_new_tokens", "train.generation_config.min_new_tokens"),
    ("max_new_tokens", "train.generation_config.max_new_tokens"),
    ("do_sample", "train.generation_config.do_sample"),
    ("temperature", "train.generation_config.temperature"),
    ("top_k", "train.generation_config.top_k"),
    ("top_p", "train.generation_config.top_p"),
    ("forced_bos_token_id", "train.generation_config.forced_bos_token_id"),
    ("suppress_tokens", "train.generation_config.suppress_tokens"),
    ("begin_suppress_tokens", "train.generation_config.begin_suppress_tokens"),
];

/// An error about a setting that the job gives names its field in place of the model's file.
fn of_field(error: RunError, given: &Map<String, Value>) -> RunError {
    match error {
        RunError::Model(ModelError::Config { key, problem, .. }) if given.contains_key(&key) => {
            let field = FIELDS.iter().find(|(name, _)| *name == key);
            let name = field.map_or("train.generation_config", |(_, field)| field);
            RunError::Field { name, value: given[&key].to_string(), problem }
        }
        error => error,
    }
}

/// The tokens of one shard's texts, as hosts send them.
#[derive(Clone, PartialEq, Message)]
struct GeneratedTexts {
    #[prost(message, repeated, tag = "1")]
    texts: Vec<GeneratedText>,
}

#[derive(Clone, PartialEq, Message)]
struct GeneratedText {
    #[prost(uint32, repeated, tag = "1")]
    tokens: Vec<u32>,
}

impl GeneratedTexts {
    fn of(texts: Vec<Vec<u32>>) -> GeneratedTexts {
        let texts = texts.into_iter().map(|tokens| GeneratedText { tokens });
        GeneratedTexts { texts: texts.collect() }
    }
}

fn shard_rows(batch: &CoreBatch, numbers: Vec<u64>) -> RunResult<ShardRows> {
    let values = |name: &str| -> RunResult<Vec<i32>> {
        match batch.array(name).map(|array| &array.values) {
            Some(ArrayValues::S32(values)) => Ok(values.clone()),
            _ => Err(RunError::NoSuchInput { name: name.to_owned(), dtype: DType::S32 }),
        }
    };
    let (input_ids, attention_mask) = (values("input_ids")?, values("attention_mask")?);
    Ok(ShardRows { input_ids, attention_mask, numbers })
}

#[cfg(test)]
mod tests {
    use super::*;

    const JOB: &str = "{name: a, model: {name_or_path: ./a, task: seq2seq-lm}, output_dir: out, data: {train: a.csv}, \
                       train: {predict_with_generate: true, generation_max_length: 9, generation_num_beams: 2}}";

    #[test]
    fn every_setting_of_generation_has_a_field() {
        let train = JobFile::parse(JOB, Path::new("/")).unwrap().job.train;
        let own = serde_json::to_value(&train.generation_config).unwrap();
        let own = own.as_object().unwrap().keys().cloned();
        let mut settings: Vec<String> =
            own.chain(given(&train).into_iter().map(|it| it.0)).collect();
        let mut fields: Vec<&str> = FIELDS.iter().map(|(name, _)| *name).collect();
        settings.sort_unstable();
        fields.sort_unstable();
        assert_eq!(settings, fields);
    }
}
