//! The random numbers that every resumed run must repeat: of the shuffle, the validation split and
//! masking. Its bits are part of the checkpoint format:
//! SplitMix64 (Steele, Lea, Flood, OOPSLA 2014), Lemire's bounded integers, Fisher-Yates from the
//! last place down. A test pins them; never change them.

/// SplitMix64: a 64-bit counter, hashed.
pub(crate) struct SplitMix64 {
    state: u64,
}

impl SplitMix64 {
    /// The generator of one epoch. Seed and epoch are hashed one after the other, so that epoch 1
    /// of seed 42 is not epoch 0 of seed 43.
    pub(crate) fn of_epoch(seed: u64, epoch: u64) -> Self {
        let seed_hash = Self { state: seed }.next();
        Self { state: seed_hash.wrapping_add(epoch) }
    }

    /// The generator of one row in one epoch: the same wherever and whenever the row is drawn for.
    pub(crate) fn of_row(seed: u64, epoch: u64, row: u64) -> Self {
        let epoch_hash = Self::of_epoch(seed, epoch).next();
        Self { state: epoch_hash.wrapping_add(row) }
    }

    /// Draws a number uniformly from `0.0..1.0`.
    pub(crate) fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.state ^ (self.state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// Draws a number uniformly from `0..bound`, without bias (Lemire 2019); `bound` must not be 0.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        let rejected = bound.wrapping_neg() % bound;
        loop {
            let product = u128::from(self.next()) * u128::from(bound);
            if product as u64 >= rejected {
                return (product >> 64) as u64;
            }
        }
    }

    /// Shuffles in place.
    pub(crate) fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            let pick = self.below(last as u64 + 1) as usize;
            items.swap(last, pick);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equals_the_published_sequence() {
        let mut random = SplitMix64 { state: 1_234_567 };
        let published = [
            6457827717110365317,
            3203168211198807973,
            9817491932198370423,
            4593380528125082431,
            16408922859458223821,
        ];
        assert_eq!(published.map(|_| random.next()), published);
    }

    /// The orders come from an independent implementation, in Python.
    #[test]
    fn the_order_of_an_epoch_never_changes_between_versions() {
        let order = |seed, epoch| {
            let mut rows: Vec<u32> = (0..10).collect();
            SplitMix64::of_epoch(seed, epoch).shuffle(&mut rows);
            rows
        };
        assert_eq!(order(42, 0), [1, 7, 2, 5, 6, 4, 0, 9, 8, 3]);
        assert_eq!(order(42, 1), [3, 0, 6, 8, 4, 5, 1, 7, 2, 9]);
    }

    #[test]
    fn every_place_is_equally_likely() {
        let mut counts = [[0u32; 5]; 5];
        for epoch in 0..20_000 {
            let mut rows = [0, 1, 2, 3, 4];
            SplitMix64::of_epoch(7, epoch).shuffle(&mut rows);
            for (place, &row) in rows.iter().enumerate() {
                counts[row][place] += 1;
            }
        }
        // 4,000 expected, standard deviation 57: five of them either side.
        assert!(counts.iter().flatten().all(|count| (3_717..4_283).contains(count)), "{counts:?}");
    }
}
