//! Dynamic masking, as transformers' `DataCollatorForLanguageModeling` does it: of the tokens that
//! are picked, by default 80 in 100 become the mask token, 10 another token and 10 stay; with whole words,
//! all become the mask token. What is drawn for a row depends on the seed, the epoch and the row
//! alone: not on its batch, the number of cores, or whether the run was resumed.

use crate::error::{Error, Result};
use crate::labels::IGNORED_LABEL;
use crate::random::SplitMix64;
use crate::tasks::{CONTINUES_WORD, STARTS_WORD};

/// The shares of the picked tokens that are replaced; others stay.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Replacements {
    /// The share that becomes the mask token.
    pub mask: f64,
    /// The share that becomes any token of the vocabulary.
    pub random: f64,
}

/// BERT's.
impl Default for Replacements {
    fn default() -> Self {
        Self { mask: 0.8, random: 0.1 }
    }
}

/// How the tokens of a row are masked.
#[derive(Clone, Debug, PartialEq)]
pub struct Masking {
    seed: u64,
    mlm_probability: f64,
    whole_word_mask: bool,
    mask_token_id: u32,
    vocab_size: u32,
    replacements: Replacements,
}

impl Masking {
    /// Each token (or word, if `whole_word_mask`) is picked with `mlm_probability`; replacements
    /// are uniform in `0..vocab_size`.
    pub fn new(
        seed: u64,
        mlm_probability: f64,
        whole_word_mask: bool,
        mask_token_id: u32,
        vocab_size: u32,
    ) -> Result<Self> {
        if !(0.0..=1.0).contains(&mlm_probability) {
            let message = format!("must be between 0 and 1, found {mlm_probability}");
            return Err(Error::BadOption { field: "data.mlm_probability", message });
        }
        let replacements = Replacements::default();
        Ok(Self { seed, mlm_probability, whole_word_mask, mask_token_id, vocab_size, replacements })
    }

    /// Replaces other shares of the picked tokens, unless whole words are masked.
    pub fn with_replacements(self, replacements: Replacements) -> Self {
        Self { replacements, ..self }
    }

    /// Masks `ids` in place and returns the target of each token. `parts` are the tokens' parts in
    /// words; without them, every token is a word.
    pub(crate) fn mask(&self, ids: &mut [i32], parts: &[u8], epoch: u64, row: u64) -> Vec<i32> {
        let mut random = SplitMix64::of_row(self.seed, epoch, row);
        let mut picked = false;
        let targets = ids.iter_mut().enumerate().map(|(place, id)| {
            // Always drawn, so that the result for one token does not depend on the others.
            let (pick, fate) = (random.unit(), random.unit());
            let other = random.below(u64::from(self.vocab_size.max(1)));
            let target = *id;
            picked = match parts.get(place).copied().unwrap_or(STARTS_WORD) {
                // A block may begin within a word, whose rest counts as a word of its own.
                CONTINUES_WORD if place == 0 => pick < self.mlm_probability,
                STARTS_WORD => pick < self.mlm_probability,
                CONTINUES_WORD if self.whole_word_mask => picked,
                CONTINUES_WORD => pick < self.mlm_probability,
                _ => false,
            };
            if !picked {
                return IGNORED_LABEL;
            }
            let Replacements { mask, random } = self.replacements;
            if self.whole_word_mask || fate < mask {
                *id = self.mask_token_id as i32;
            } else if fate < mask + random {
                *id = other as i32;
            }
            target
        });
        targets.collect()
    }
}

impl Masking {
    /// A number from which a model may draw tokens for the row, which does not depend on the masks: not negative.
    pub(crate) fn sampling_seed(&self, epoch: u64, row: u64) -> i32 {
        const SALT: u64 = 0x7361_6d70_6c69_6e67;
        let mut random = SplitMix64::of_row(self.seed ^ SALT, epoch, row);
        random.below(1 << 31) as i32
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tasks::SPECIAL_TOKEN;

    const MASK: i32 = 103;

    fn masked(masking: &Masking, parts: &[u8], epoch: u64, row: u64) -> (Vec<i32>, Vec<i32>) {
        let mut ids: Vec<i32> = (1_000..).take(parts.len()).collect();
        let targets = masking.mask(&mut ids, parts, epoch, row);
        (ids, targets)
    }

    fn masking(whole_word_mask: bool) -> Masking {
        Masking::new(7, 0.15, whole_word_mask, MASK as u32, 500).unwrap()
    }

    #[test]
    fn shares_are_those_of_transformers() {
        let parts = [&[SPECIAL_TOKEN][..], &[STARTS_WORD; 98], &[SPECIAL_TOKEN]].concat();
        let (mut picked, mut masked_tokens, mut kept) = (0, 0, 0);
        for row in 0..2_000 {
            let (ids, targets) = masked(&masking(false), &parts, 0, row);
            assert_eq!((targets[0], targets[99]), (IGNORED_LABEL, IGNORED_LABEL));
            for (place, (id, target)) in ids.iter().zip(&targets).enumerate() {
                let original = 1_000 + place as i32;
                match *target {
                    IGNORED_LABEL => assert_eq!(*id, original),
                    target => {
                        assert_eq!(target, original);
                        picked += 1;
                        masked_tokens += i32::from(*id == MASK);
                        kept += i32::from(*id == original);
                    }
                }
            }
        }
        // 196,000 tokens: 29,400 picked with a standard deviation of 158, and so on; five of them.
        assert!((28_610..30_190).contains(&picked), "{picked}");
        let share = |count| f64::from(count) / f64::from(picked);
        assert!((share(masked_tokens) - 0.8).abs() < 0.012, "{}", share(masked_tokens));
        assert!((share(kept) - 0.1).abs() < 0.009, "{}", share(kept));
    }

    #[test]
    fn other_shares_may_be_replaced() {
        let replaced = |mask, random| {
            let all = Masking::new(7, 1.0, false, MASK as u32, 500).unwrap();
            let masking = all.with_replacements(Replacements { mask, random });
            let (ids, _) = masked(&masking, &[STARTS_WORD; 1_000], 0, 0);
            let kept = (1_000..).zip(&ids).filter(|(original, id)| original == *id).count();
            (ids.iter().filter(|&&id| id == MASK).count(), kept)
        };
        assert_eq!(replaced(1.0, 0.0), (1_000, 0));
        assert_eq!(replaced(0.0, 0.0), (0, 1_000));
        let (masks, kept) = replaced(0.85, 0.0);
        // 850 with a standard deviation of 11; five of them.
        assert!(masks + kept == 1_000 && (790..910).contains(&masks), "{masks}");
    }

    #[test]
    fn whole_words_are_masked_together() {
        let parts = [STARTS_WORD, CONTINUES_WORD, CONTINUES_WORD, STARTS_WORD].repeat(50);
        let mut words = 0;
        for row in 0..100 {
            let (ids, targets) = masked(&masking(true), &parts, 0, row);
            for word in targets.chunks(4).zip(ids.chunks(4)) {
                let hidden: Vec<bool> = word.0.iter().map(|&id| id != IGNORED_LABEL).collect();
                assert!(hidden[0] == hidden[1] && hidden[1] == hidden[2]);
                let replaced = word.1.iter().map(|&id| id == MASK);
                assert!(replaced.eq(hidden.iter().copied()));
                words += usize::from(hidden[0]);
            }
        }
        assert!((600..900).contains(&words), "{words}");
    }

    #[test]
    fn the_rest_of_a_word_with_which_a_block_begins_is_a_word() {
        let parts = [CONTINUES_WORD, CONTINUES_WORD, STARTS_WORD];
        let all = Masking::new(7, 1.0, true, MASK as u32, 500).unwrap();
        assert_eq!(masked(&all, &parts, 0, 0).0, [MASK; 3]);
        let mut picked = 0;
        for row in 0..1_000 {
            let hidden = masked(&masking(true), &parts, 0, row)
                .0
                .iter()
                .map(|&id| id == MASK)
                .collect::<Vec<_>>();
            assert_eq!(hidden[0], hidden[1]);
            picked += usize::from(hidden[0]);
        }
        assert!((100..200).contains(&picked), "{picked}");
    }

    #[test]
    fn a_row_is_masked_anew_each_epoch_and_alike_in_each_run() {
        let parts = [STARTS_WORD; 200];
        let of = |seed, epoch, row| {
            let masking = Masking::new(seed, 0.15, false, MASK as u32, 500).unwrap();
            masked(&masking, &parts, epoch, row)
        };
        assert_eq!(of(7, 1, 2), of(7, 1, 2));
        assert!(of(7, 1, 2) != of(7, 2, 2) && of(7, 1, 2) != of(7, 1, 3));
        assert_ne!(of(7, 1, 2), of(8, 1, 2));
    }

    #[test]
    fn a_probability_must_be_one() {
        for probability in [-0.1, 1.1, f64::NAN] {
            assert!(Masking::new(0, probability, false, 1, 2).is_err());
        }
    }
}
