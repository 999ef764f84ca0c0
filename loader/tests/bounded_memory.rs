//! A set larger than the memory it may take: preparing and reading it grows with the number of
//! rows by some bytes each, and not by their texts and tokens.

// What cannot be measured is a failed test.
#![allow(clippy::unwrap_used)]

use std::fs::File;
use std::io::{BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use traind_loader::{
    Collator, DatasetOptions, Encoded, LabelKind, LabelSpec, LengthLadder, MaskedLm, Masking,
    Padding, Sampler, SamplerConfig, SamplingStrategy, SequenceClassification, SetStats, Source,
    SpannedEncoding, TaskSpec, TextTokenizer, TokenLimits, TokenSpan, TokenizeProblem,
    WindowOptions, prepare,
};

const WORDS: usize = 120;
const MEGABYTE: u64 = 1 << 20;

/// One token a word: as fast as the test needs it to be.
struct Words;

impl TextTokenizer for Words {
    fn encode(&self, text: &str, _text_pair: Option<&str>) -> Result<Encoded, TokenizeProblem> {
        let input_ids: Vec<u32> = text.split(' ').map(|word| word.len() as u32).collect();
        let token_type_ids = vec![0; input_ids.len()];
        Ok(Encoded { input_ids, token_type_ids, truncated: false })
    }

    fn encode_text(&self, text: &str, _truncate: bool) -> Result<SpannedEncoding, TokenizeProblem> {
        let encoded = self.encode(text, None)?;
        let span = |word| TokenSpan {
            sequence: Some(0),
            word: Some(word),
            start: 2 * word,
            end: 2 * word + 1,
        };
        let spans = (0..encoded.input_ids.len() as u32).map(span).collect();
        Ok(SpannedEncoding { encoded, spans })
    }

    fn encode_as_it_is(&self, text: &str) -> Result<SpannedEncoding, TokenizeProblem> {
        self.encode_text(text, false)
    }

    fn encode_up_to(&self, text: &str, _max_length: u32) -> Result<Encoded, TokenizeProblem> {
        self.encode(text, None)
    }

    fn special_tokens(&self) -> u32 {
        0
    }

    fn encode_words(&self, _words: &[&str]) -> Result<SpannedEncoding, TokenizeProblem> {
        Err(TokenizeProblem::Failed { message: "not part of the test".to_owned() })
    }

    fn encode_windows(
        &self,
        _: &str,
        _: &str,
        _: WindowOptions,
    ) -> Result<Vec<SpannedEncoding>, TokenizeProblem> {
        Err(TokenizeProblem::Failed { message: "not part of the test".to_owned() })
    }

    fn max_length(&self) -> Option<u32> {
        None
    }

    fn vocab_size(&self) -> u32 {
        100
    }

    fn pad_token_id(&self) -> Option<u32> {
        Some(0)
    }

    fn cls_token_id(&self) -> Option<u32> {
        None
    }

    fn mask_token_id(&self) -> Option<u32> {
        Some(1)
    }

    fn fingerprint(&self) -> &str {
        "words"
    }
}

fn write_rows(path: &Path, rows: usize) {
    let mut file = BufWriter::new(File::create(path).unwrap());
    for row in 0..rows {
        let text = vec!["abcdef"; WORDS - 1].join(" ");
        writeln!(file, "{{\"text\": \"{text} row{row}\", \"label\": {}}}", row % 3).unwrap();
    }
    file.into_inner().unwrap();
}

/// The most memory that this process ever had, in bytes.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
}

/// Prepares the rows and reads all of them in batches; checks that every token was read.
fn use_rows(file: PathBuf, cache_dir: PathBuf, task: TaskSpec, rows: usize) {
    let files = [file.to_str().unwrap().to_owned()].into_iter().collect();
    let options = DatasetOptions {
        files,
        task,
        token_limits: TokenLimits::default(),
        cache_dir: Some(cache_dir),
    };
    for cache_hit in [false, true] {
        let prepared = prepare(&options, &Words).unwrap();
        assert_eq!((prepared.cache_hit, prepared.set.len()), (cache_hit, rows));
        assert_eq!(SetStats::of(&prepared.set).unwrap().lengths.p50 as usize, WORDS);
        let (train, _) = prepared.set.split_validation(0.1, 1).unwrap();
        let strategy = SamplingStrategy::GroupByLength;
        let config =
            SamplerConfig { batch_per_core: 64, cores: 1, seed: 0, strategy, drop_last: false };
        let ladder = LengthLadder::new(128, false).unwrap();
        let sampler = Sampler::new(config, train.lengths(), ladder).unwrap();
        let mut collator = Collator::new(train.into(), Padding::behind(0));
        if matches!(options.task, TaskSpec::MaskedLm(_)) {
            collator = collator.with_masking(Masking::new(1, 0.15, false, 1, 100).unwrap());
        }
        let mut tokens = 0;
        for batch in sampler.run(0, sampler.batches_per_epoch() as u64) {
            tokens += collator.collate(batch).unwrap().tokens;
        }
        assert_eq!(tokens as usize, (rows - rows.div_ceil(10)) * WORDS);
    }
}

#[test]
fn memory_grows_with_rows_and_not_with_their_texts() {
    let folder = tempfile::tempdir().unwrap();
    let label = LabelSpec {
        column: "label".to_owned(),
        kind: LabelKind::Infer { num_labels: None },
        weight: None,
        ignored: Vec::new(),
    };
    let classification = || SequenceClassification {
        text: "text".to_owned(),
        text_pair: None,
        label: Some(label.clone()),
    };
    let masked = || MaskedLm { text: "text".to_owned(), block_size: None };
    let run = |rows: usize| {
        let file = folder.path().join(format!("{rows}.jsonl"));
        write_rows(&file, rows);
        for task in
            [TaskSpec::SequenceClassification(classification()), TaskSpec::MaskedLm(masked())]
        {
            use_rows(file.clone(), folder.path().join("cache"), task, rows);
        }
        file.metadata().unwrap().len()
    };
    run(20_000);
    let before = peak();
    let bytes = run(80_000);
    let grown = peak() - before;
    println!("{} MB of text, {} MB more of memory", bytes / MEGABYTE, grown / MEGABYTE);
    // Text and tokens have 120 MB; what it keeps of 60,000 rows more is some dozens of bytes each,
    // and what an allocator keeps is its own affair.
    assert!(bytes > 60 * MEGABYTE, "{bytes} bytes of text");
    assert!(grown < 48 * MEGABYTE, "{} MB more", grown / MEGABYTE);
}

/// One SQuAD document of one article.
fn write_questions(path: &Path, paragraphs: usize) {
    let mut file = BufWriter::new(File::create(path).unwrap());
    write!(file, "{{\"version\": \"v2.0\", \"data\": [{{\"title\": \"t\", \"paragraphs\": [")
        .unwrap();
    let context = vec!["abcdef"; 500].join(" ");
    for paragraph in 0..paragraphs {
        let comma = if paragraph > 0 { "," } else { "" };
        let question = format!("{{\"id\": \"{paragraph}\", \"question\": \"q\", \"answers\": []}}");
        write!(file, "{comma}{{\"context\": \"{context}\", \"qas\": [{question}]}}").unwrap();
    }
    write!(file, "]}}]}}").unwrap();
    file.into_inner().unwrap();
}

#[test]
fn a_document_of_questions_is_never_in_memory_as_a_whole() {
    let folder = tempfile::tempdir().unwrap();
    let read = |paragraphs: usize| {
        let file = folder.path().join(format!("{paragraphs}.json"));
        write_questions(&file, paragraphs);
        let source = Source::open(&[file.to_str().unwrap().to_owned()].into_iter().collect());
        let source = source.unwrap();
        let read = |part| source.read(part, &["context", "id"], &mut |_| Ok(())).unwrap();
        assert_eq!(source.parts().into_iter().map(read).sum::<u64>(), paragraphs as u64);
        file.metadata().unwrap().len()
    };
    read(2_000);
    let before = peak();
    let bytes = read(30_000);
    let grown = peak() - before;
    println!("{} MB of questions, {} MB more of memory", bytes / MEGABYTE, grown / MEGABYTE);
    assert!(bytes > 100 * MEGABYTE, "{bytes} bytes of questions");
    assert!(grown < 24 * MEGABYTE, "{} MB more", grown / MEGABYTE);
}

/// A few kilobytes may stand for any number of bytes: reading ends at the longest row.
#[test]
fn compressed_texts_without_end_are_refused_within_the_memory_of_a_row() {
    let folder = tempfile::tempdir().unwrap();
    let endless = || std::io::repeat(b'x').take(160 * MEGABYTE);
    let mut zstd = zstd::Encoder::new(Vec::new(), 1).unwrap();
    std::io::copy(&mut endless(), &mut zstd).unwrap();
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    std::io::copy(&mut endless(), &mut gzip).unwrap();
    let compressed = [("zst", zstd.finish().unwrap()), ("gz", gzip.finish().unwrap())];
    let before = peak();
    for (format, (end, bytes)) in
        ["jsonl", "json", "txt", "csv"].iter().zip(compressed.iter().cycle())
    {
        let file = folder.path().join(format!("a.{format}.{end}"));
        std::fs::write(&file, bytes).unwrap();
        let files = [file.to_str().unwrap().to_owned()].into_iter().collect();
        let read = Source::open(&files).and_then(|source| {
            let parts = source.parts().into_iter();
            parts.map(|part| source.read(part, &["text"], &mut |_| Ok(()))).sum::<Result<u64, _>>()
        });
        let error = read.unwrap_err().to_string();
        assert!(error.contains("the row is longer than 67108864 bytes"), "{error}");
    }
    let grown = peak() - before;
    println!("{} MB more of memory", grown / MEGABYTE);
    assert!(grown < 140 * MEGABYTE, "{} MB more", grown / MEGABYTE);
}
