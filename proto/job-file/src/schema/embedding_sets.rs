//! The sets of embedded texts that a job has, each with the loss of its rows.

use crate::schema::JobFile;
use crate::schema::data_set::DataSet;
use crate::schema::objectives::embedding::Embedding;

impl Embedding {
    /// The settings of the rows of a set.
    pub fn of_set(&self, set: &DataSet) -> Embedding {
        self.with_args(set.loss, &set.loss_args)
    }
}

impl DataSet {
    /// Whether its rows have a loss, or columns of texts, of their own.
    pub fn has_objective(&self) -> bool {
        self.loss.is_some() || !self.loss_args.is_empty() || !self.texts.is_empty()
    }
}

impl JobFile {
    /// The settings and the columns of texts of each set that is trained on, where each batch has rows of one; none
    /// where all rows are alike. Sets without names of columns have all columns of their files.
    pub fn embedding_sets(&self) -> Vec<(Embedding, &[String])> {
        let Some(files) = self.data.train.as_ref().filter(|_| self.mixes_batches()) else {
            return Vec::new();
        };
        let texts = &self.data.texts[..];
        if files.sets.is_empty() {
            return files.patterns.iter().map(|_| (self.embedding.clone(), texts)).collect();
        }
        let sets = files.sets.iter().map(|set| {
            let own = if set.texts.is_empty() { texts } else { &set.texts };
            (self.embedding.of_set(set), own)
        });
        sets.collect()
    }

    /// Whether each batch that is trained on has rows of one of several sets.
    pub fn mixes_batches(&self) -> bool {
        self.train.do_train && self.data.mixing.is_of_batches()
    }

    /// The settings of the set with the most texts of a row, with their number, or with the fewest that there can be
    /// where only the files tell.
    pub fn widest_embedding(&self) -> (Embedding, usize) {
        let count = |settings: &Embedding, texts: &[String]| match texts.len() {
            0 => settings.loss.texts().0,
            named => named,
        };
        let sets = self.embedding_sets().into_iter().map(|(settings, texts)| {
            let texts = count(&settings, texts);
            (settings, texts)
        });
        let all = || (self.embedding.clone(), count(&self.embedding, &self.data.texts));
        sets.max_by_key(|(_, texts)| *texts).unwrap_or_else(all)
    }
}
