//! Tokenizes data files as a job would, reads an epoch of batches, and prints what they hold and
//! what that took:
//!
//! `cargo run -p traind-loader --example prepare -- MODEL_FOLDER CACHE_DIR TEXT LABEL FILE...`

#![allow(clippy::print_stdout)]

use std::collections::BTreeSet;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::time::Instant;

use traind_loader::{
    Collator, DatasetOptions, HuggingFaceTokenizer, LabelKind, LabelSpec, LengthLadder, Padding,
    Sampler, SamplerConfig, SamplingStrategy, SequenceClassification, SetStats, TaskSpec,
    TextTokenizer, TokenLimits, TokenizerOptions, padding_share, prepare,
};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [model, cache_dir, text, label, files @ ..] = arguments.as_slice() else {
        return Err("usage: prepare MODEL_FOLDER CACHE_DIR TEXT LABEL FILE...".into());
    };
    let tokenizer = HuggingFaceTokenizer::open(Path::new(model), &TokenizerOptions::default())?;
    let label = LabelSpec {
        column: label.clone(),
        kind: LabelKind::Infer { num_labels: None },
        weight: None,
        ignored: Vec::new(),
    };
    let task = SequenceClassification { text: text.clone(), text_pair: None, label: Some(label) };
    let options = DatasetOptions {
        files: files.iter().cloned().collect(),
        task: TaskSpec::SequenceClassification(task),
        token_limits: TokenLimits::default(),
        cache_dir: Some(PathBuf::from(cache_dir)),
    };
    let prepared = prepare(&options, &tokenizer)?;
    println!("{:#?}", SetStats::of(&prepared.set)?);
    println!("prepared: {:?}, cache hit: {}", prepared.duration, prepared.cache_hit);
    for strategy in [SamplingStrategy::Random, SamplingStrategy::GroupByLength] {
        let config =
            SamplerConfig { batch_per_core: 8, cores: 2, seed: 42, strategy, drop_last: false };
        let ladder = LengthLadder::new(tokenizer.max_length().unwrap_or(512), false)?;
        let sampler = Sampler::new(config, prepared.set.lengths(), ladder)?;
        let uses = sampler.first_uses(0..3 * sampler.batches_per_epoch() as u64);
        let shapes: BTreeSet<_> = uses.into_iter().map(|(_, sizes)| sizes).collect();
        let padding = padding_share(sampler.epoch(0).batches(), sampler.lengths());
        println!("{strategy:?}: padding {:.1} %, shapes of 3 epochs {shapes:?}", 100.0 * padding);
        let start = Instant::now();
        let collator = Collator::new(prepared.set.clone(), Padding::behind(0));
        for batch in sampler.run(0, sampler.batches_per_epoch() as u64) {
            collator.collate(batch)?;
        }
        println!("epoch: {:?}", start.elapsed());
    }
    println!("peak: {:.1} MB", peak_megabytes()?);
    Ok(())
}

/// The most memory that the process ever had.
fn peak_megabytes() -> Result<f64, Box<dyn Error>> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).ok_or("no VmHWM")?;
    Ok(peak.trim().trim_end_matches(" kB").parse::<f64>()? / 1024.0)
}
