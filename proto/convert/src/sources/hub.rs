//! Data sets of the hub under the short names that examples have for them.

/// Short name, today's id.
const CANONICAL: &[(&str, &str)] = &[
    ("ag_news", "fancyzhx/ag_news"),
    ("amazon_polarity", "fancyzhx/amazon_polarity"),
    ("beans", "AI-Lab-Makerere/beans"),
    ("big_patent", "NortheasternUniversity/big_patent"),
    ("billsum", "FiscalNote/billsum"),
    ("c4", "allenai/c4"),
    ("cifar10", "uoft-cs/cifar10"),
    ("cifar100", "uoft-cs/cifar100"),
    ("cnn_dailymail", "abisee/cnn_dailymail"),
    ("conll2003", "eriktks/conll2003"),
    ("dbpedia_14", "fancyzhx/dbpedia_14"),
    ("emotion", "dair-ai/emotion"),
    ("food101", "ethz/food101"),
    ("gigaword", "Harvard/gigaword"),
    ("glue", "nyu-mll/glue"),
    ("imdb", "stanfordnlp/imdb"),
    ("mnist", "ylecun/mnist"),
    ("multi_news", "alexfabbri/multi_news"),
    ("opus100", "Helsinki-NLP/opus-100"),
    ("opus_books", "Helsinki-NLP/opus_books"),
    ("rotten_tomatoes", "cornell-movie-review-data/rotten_tomatoes"),
    ("samsum", "Samsung/samsum"),
    ("scientific_papers", "armanc/scientific_papers"),
    ("snli", "stanfordnlp/snli"),
    ("squad", "rajpurkar/squad"),
    ("squad_v2", "rajpurkar/squad_v2"),
    ("tweet_eval", "cardiffnlp/tweet_eval"),
    ("wikitext", "Salesforce/wikitext"),
    ("wmt14", "wmt/wmt14"),
    ("wmt15", "wmt/wmt15"),
    ("wmt16", "wmt/wmt16"),
    ("wmt17", "wmt/wmt17"),
    ("wmt18", "wmt/wmt18"),
    ("wmt19", "wmt/wmt19"),
    ("wnut_17", "leondz/wnut_17"),
    ("xnli", "facebook/xnli"),
    ("xsum", "EdinburghNLP/xsum"),
    ("yelp_polarity", "fancyzhx/yelp_polarity"),
    ("yelp_review_full", "Yelp/yelp_review_full"),
];

/// A name without an organization that no example uses.
#[derive(Debug, thiserror::Error)]
#[error("`{name}` is no id of the hub such as `org/name`; give data.train by --set")]
pub(crate) struct NotAnId {
    name: String,
}

/// The id of a data set.
pub(crate) fn data_set(name: &str) -> Result<String, NotAnId> {
    if name.contains('/') {
        return Ok(name.to_owned());
    }
    let known = CANONICAL.iter().find(|(short, _)| *short == name);
    known.map(|(_, id)| (*id).to_owned()).ok_or_else(|| NotAnId { name: name.to_owned() })
}

/// The id of a data set, or its URL if a revision or files of it follow.
pub(crate) fn address(name: &str, revision: &str, has_files: bool) -> Result<String, NotAnId> {
    let id = data_set(name)?;
    Ok(match revision {
        "" if !has_files => id,
        "" => format!("hf://datasets/{id}"),
        revision => format!("hf://datasets/{id}@{revision}"),
    })
}

/// Whether text names files rather than a data set of the hub.
pub(crate) fn is_file(name: &str) -> bool {
    const ENDS: [&str; 8] =
        [".csv", ".tsv", ".json", ".jsonl", ".parquet", ".arrow", ".txt", ".gz"];
    name.starts_with(['.', '/'])
        || name.contains("://")
        || ENDS.iter().any(|end| name.ends_with(end))
}
