//! numpy's `default_rng(seed)`: PCG64, seeded by `SeedSequence`. Its numbers decide which set the next
//! row is from, so that they must be those of `datasets`.

/// O'Neill's PCG XSL RR 128/64.
pub(super) struct Pcg64 {
    state: u128,
    increment: u128,
}

const MULTIPLIER: u128 = 0x2360_ED05_1FC6_5DA4_4385_DF64_9FCC_F645;
/// Words of the pool that a seed is mixed in.
const POOL: usize = 4;
const MULTIPLIER_A: u32 = 0x931E_8875;
const MULTIPLIER_B: u32 = 0x58F3_8DED;

impl Pcg64 {
    pub(super) fn new(seed: u64) -> Self {
        let words = generated_words(pool_of(seed));
        let word = |at: usize| u128::from(words[at]);
        let (state, sequence) = (word(0) << 64 | word(1), word(2) << 64 | word(3));
        let mut generator = Self { state: 0, increment: sequence << 1 | 1 };
        generator.step();
        generator.state = generator.state.wrapping_add(state);
        generator.step();
        generator
    }

    /// Draws a number uniformly from `0.0..1.0`, in steps of 2⁻⁵³.
    pub(super) fn unit(&mut self) -> f64 {
        self.step();
        let folded = (self.state >> 64) as u64 ^ self.state as u64;
        let number = folded.rotate_right((self.state >> 122) as u32);
        (number >> 11) as f64 / (1u64 << 53) as f64
    }

    fn step(&mut self) {
        self.state = self.state.wrapping_mul(MULTIPLIER).wrapping_add(self.increment);
    }
}

/// Mixes a seed into a pool, as numpy's `SeedSequence`.
fn pool_of(seed: u64) -> [u32; POOL] {
    let mut constant = 0x43B0_D7E5;
    let mut hash = |value: u32| {
        let value = value ^ constant;
        constant = u32::wrapping_mul(constant, MULTIPLIER_A);
        let value = value.wrapping_mul(constant);
        value ^ value >> 16
    };
    // A seed below 2³² is one word, and the words that a seed lacks are zeros.
    let mut pool = [seed as u32, (seed >> 32) as u32, 0, 0].map(&mut hash);
    for from in 0..POOL {
        for to in 0..POOL {
            if from != to {
                let mixed = pool[to]
                    .wrapping_mul(0xCA01_F9DD)
                    .wrapping_sub(hash(pool[from]).wrapping_mul(0x4973_F715));
                pool[to] = mixed ^ mixed >> 16;
            }
        }
    }
    pool
}

/// Returns the words of `SeedSequence.generate_state(4, uint64)`.
fn generated_words(pool: [u32; POOL]) -> [u64; 4] {
    let mut constant = 0x8B51_F9DD;
    let mut words = [0; 8];
    for (word, value) in words.iter_mut().zip(pool.iter().cycle()) {
        let value = value ^ constant;
        constant = u32::wrapping_mul(constant, MULTIPLIER_B);
        let value = value.wrapping_mul(constant);
        *word = value ^ value >> 16;
    }
    [0, 2, 4, 6].map(|at| u64::from(words[at]) | u64::from(words[at + 1]) << 32)
}
