//! Random bits as a function of where they are used: seed, step, site and the
//! element's place in the global batch. Nothing is carried from one draw to
//! the next, so that any number of cores, a replay and a resumed run draw the
//! same, and plain u32 arithmetic gives the same bits on every backend.
//!
//! The mixing function is the 32-bit integer hash with multipliers 21f0aaad
//! and d35a2d97 and shifts 16, 15, 15 that the "hash prospector" project
//! (github.com/skeeto/hash-prospector, public domain) found to have the least
//! bias of its kind. A site has two keys, one added before the first
//! multiplication and one before the second: with a single key, two sites
//! would draw shifted parts of one sequence.

use std::cell::Cell;

use crate::error::Result;
use crate::graph::DType;
use crate::tensor::Tensor;

const MULTIPLIERS: [u32; 2] = [0x21f0_aaad, 0xd35a_2d97];
const SHIFTS: [u32; 3] = [16, 15, 15];
/// 2³² divided by the golden ratio: consecutive numbers times it lie far apart.
const GOLDEN: u32 = 0x9e37_79b9;
/// Set the two keys apart: the first digits of π and of e.
const KEY_SALTS: [u32; 2] = [0x243f_6a88, 0xb7e1_5162];

/// The source of a trace's random bits. Each draw is a site of its own,
/// numbered in the order of tracing.
#[derive(Debug)]
pub struct Random {
    row_offset: Tensor,
    /// The batch rows of this core, where axis 0 does not count them.
    rows: Option<usize>,
    /// What seed and step contribute to each key.
    keys: [Tensor; 2],
    site: Cell<u32>,
}

impl Random {
    /// All three are u32 scalars; `row_offset` is the place in the global
    /// batch of the first row that this core has.
    pub fn new(seed: &Tensor, step: &Tensor, row_offset: &Tensor) -> Result<Random> {
        let key = |salt: u32| -> Result<Tensor> {
            let seeded = mix(&seed.xor_scalar(salt.into())?)?;
            mix(&seeded.add(&step.mul_scalar(GOLDEN.into())?)?)
        };
        let keys = [key(KEY_SALTS[0])?, key(KEY_SALTS[1])?];
        Ok(Random { row_offset: row_offset.clone(), rows: None, keys, site: Cell::new(0) })
    }

    /// For tensors that hold `rows` batch rows one behind the other, whatever
    /// their axis 0 counts: `[B, S, H]` and `[B S, H]` then draw the same.
    pub fn with_rows(self, rows: usize) -> Random {
        Random { rows: Some(rows), ..self }
    }

    /// u32 bits for each element of a tensor whose axis 0 counts batch rows,
    /// unless [`Random::with_rows`] says how many there are.
    pub fn bits(&self, dims: &[usize]) -> Result<Tensor> {
        let site = self.site.replace(self.site.get() + 1);
        let [first, second] = &self.keys;
        let keys = [site_key(first, site)?, site_key(second, site)?];
        hash(&self.places(dims)?, &keys)?.reshape(dims)
    }

    /// The number of each element in the global batch, modulo 2³², as
    /// `[rows, elements of a row]`.
    fn places(&self, dims: &[usize]) -> Result<Tensor> {
        let rows = self.rows.or(dims.first().copied()).unwrap_or(1).max(1);
        let row_elements = dims.iter().product::<usize>() / rows;
        let trace = self.row_offset.trace();
        let row = trace.iota(DType::U32, &[rows, 1], 0)?.add(&self.row_offset)?;
        let first = row.mul_scalar(row_elements as f64)?;
        first.add(&trace.iota(DType::U32, &[1, row_elements], 1)?)
    }
}

fn site_key(key: &Tensor, site: u32) -> Result<Tensor> {
    mix(&key.add_scalar(site.wrapping_mul(GOLDEN).into())?)
}

fn mix(x: &Tensor) -> Result<Tensor> {
    hash(x, &[])
}

/// The hash of each element, under the keys if there are any.
fn hash(x: &Tensor, keys: &[Tensor]) -> Result<Tensor> {
    let mut x = x.clone();
    for (round, multiplier) in MULTIPLIERS.into_iter().enumerate() {
        if let Some(key) = keys.get(round) {
            x = x.add(key)?;
        }
        x = shift_xor(&x, SHIFTS[round])?.mul_scalar(multiplier.into())?;
    }
    shift_xor(&x, SHIFTS[2])
}

fn shift_xor(x: &Tensor, by: u32) -> Result<Tensor> {
    x.xor(&x.shift_right_logical_scalar(by.into())?)
}

/// What [`Random::bits`] gives for one element, computed here: `site` counts
/// from 0 and `place` is the element's number in the global batch.
pub fn reference_bits(seed: u32, step: u32, site: u32, place: u32) -> u32 {
    let keys = KEY_SALTS.map(|salt| {
        let seeded = reference_hash(seed ^ salt, [0; 2]);
        let stepped = reference_hash(seeded.wrapping_add(step.wrapping_mul(GOLDEN)), [0; 2]);
        reference_hash(stepped.wrapping_add(site.wrapping_mul(GOLDEN)), [0; 2])
    });
    reference_hash(place, keys)
}

fn reference_hash(mut x: u32, keys: [u32; 2]) -> u32 {
    for round in 0..2 {
        x = x.wrapping_add(keys[round]);
        x = (x ^ (x >> SHIFTS[round])).wrapping_mul(MULTIPLIERS[round]);
    }
    x ^ (x >> SHIFTS[2])
}
