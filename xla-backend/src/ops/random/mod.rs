//! Random bits as a function of where they are used: seed, step, site, row of
//! the global batch and place in the row. Nothing is carried from one draw to
//! the next, so that any number of cores, a replay and a resumed run draw the
//! same, and plain u32 arithmetic gives the same bits on every backend. A place
//! has the same number whatever length its row is padded to.
//!
//! The mixing function is the 32-bit integer hash with multipliers 21f0aaad
//! and d35a2d97 and shifts 16, 15, 15 that the "hash prospector" project
//! (github.com/skeeto/hash-prospector, public domain) found to have the least
//! bias of its kind. A block of places has two keys, one added before the first
//! multiplication and one before the second: with a single key, two blocks
//! would draw shifted parts of one sequence.

mod dropout_keys;

use std::cell::Cell;
use std::ops::Range;
use std::rc::Rc;

use traind_kernels::hash::{GOLDEN, MULTIPLIERS, PLACE_STRIDE, SHIFTS};

use crate::error::Result;
use crate::graph::DType;
use crate::tensor::{Tensor, Trace};
use dropout_keys::DropoutKeys;

/// The salts that set the two keys apart: the first digits of π and of e.
const KEY_SALTS: [u32; 2] = [0x243f_6a88, 0xb7e1_5162];

/// The source of a trace's random bits. Each draw is a site of its own,
/// numbered in the order of tracing. A clone draws from the same sequence.
#[derive(Clone, Debug)]
pub struct Random {
    row_offset: Tensor,
    /// The batch rows of this core, where axis 0 does not count them.
    rows: Option<usize>,
    /// The contribution of seed and step to each key.
    keys: [Tensor; 2],
    /// The number of the next draw, shared by all clones.
    site: Rc<Cell<u32>>,
    /// The blocks of each row that this core has, where other cores have others.
    blocks: Option<Blocks>,
    /// The first place that this core has on each axis of a block, where that is not 0: u32 scalars.
    first_places: [Option<Tensor>; 2],
    /// The tokens that stand on axis 0, where those are not whole rows.
    tokens: Option<TokenPlaces>,
}

/// The places of tokens in their rows, u32 `[tokens]` each.
#[derive(Clone, Debug)]
struct TokenPlaces {
    /// The row of this core that each token belongs to.
    rows: Tensor,
    positions: Tensor,
}

/// The rows that have keys.
#[derive(Clone, Copy, Debug)]
struct RowsOfKeys {
    rows: usize,
    /// Blocks of a row that this core has.
    blocks: usize,
    /// All blocks of a row.
    blocks_of_row: usize,
}

/// Some of the blocks of a row, one behind the other.
#[derive(Clone, Debug)]
struct Blocks {
    /// The number of the first block, a u32 scalar.
    first: Tensor,
    /// The number of blocks of the whole row.
    count: usize,
}

impl Random {
    /// All three are u32 scalars; `row_offset` is the place in the global
    /// batch of the first row that this core has.
    pub fn new(seed: &Tensor, step: &Tensor, row_offset: &Tensor) -> Result<Random> {
        let key =
            |salt: u32| -> Result<Tensor> { next_key(&mix(&seed.xor_scalar(salt.into())?)?, step) };
        let keys = [key(KEY_SALTS[0])?, key(KEY_SALTS[1])?];
        let (row_offset, site) = (row_offset.clone(), Rc::default());
        let (blocks, first_places, tokens) = (None, [None, None], None);
        Ok(Random { row_offset, rows: None, keys, site, blocks, first_places, tokens })
    }

    /// Makes numbers for tensors that hold `rows` batch rows one behind the other, whatever
    /// their axis 0 counts: `[B, S, H]` and `[B S, H]` then draw the same.
    pub fn with_rows(self, rows: usize) -> Random {
        Random { rows: Some(rows), ..self }
    }

    /// The same sequence of draws for tensors `[T, H]` of T tokens, whose rows on this core and positions in them are
    /// u32 `[T]`: each draws the bits that it has in `[B S, H]`.
    pub fn of_tokens(&self, rows: &Tensor, positions: &Tensor) -> Random {
        let places = TokenPlaces { rows: rows.clone(), positions: positions.clone() };
        Random { rows: Some(rows.dims()[0]), tokens: Some(places), ..self.clone() }
    }

    /// A source for tensors `[T, N]` of T tokens, whose rows have seeds of their own: u32 `[T]`, as are the positions
    /// of the tokens in their rows. N may be more than the places that are numbered between those of two positions.
    pub fn of_seeds(seeds: &Tensor, positions: &Tensor) -> Result<Random> {
        let zero = seeds.trace().scalar(0.0, DType::U32)?;
        let (rows, places) = (next_key(seeds, positions)?, positions.mul_scalar(0.0)?);
        Ok(Random::new(&zero, &zero, &zero)?.of_tokens(&rows, &places))
    }

    /// The same sequence of draws for tensors that hold some of the `count` blocks of each row, from
    /// the block `first` on, a u32 scalar: they draw the bits that these blocks have in the whole.
    pub fn in_blocks(&self, first: &Tensor, count: usize) -> Random {
        Random { blocks: Some(Blocks { first: first.clone(), count }), ..self.clone() }
    }

    /// The same sequence of draws for tensors that hold some of the places along `axis`, 0 or 1, of the
    /// last two axes, from `first` on, a u32 scalar.
    pub fn from_place(&self, axis: usize, first: &Tensor) -> Random {
        let mut random = self.clone();
        if let Some(place) = random.first_places.get_mut(axis) {
            *place = Some(first.clone());
        }
        random
    }

    /// Whether the places of a block count from 0, as `block_bits` counts them.
    pub fn is_from_first_place(&self) -> bool {
        self.first_places.iter().all(Option::is_none)
    }

    /// The same sequence of draws for tensors that all rows of the global batch share.
    pub fn of_no_row(&self) -> Result<Random> {
        let row_offset = self.row_offset.trace().scalar(0.0, DType::U32)?;
        Ok(Random { row_offset, rows: Some(1), ..self.clone() })
    }

    /// The same source after `sites` draws, as a part of a model has it whose earlier parts are traced
    /// elsewhere.
    pub fn after_sites(self, sites: u32) -> Random {
        Random { site: Rc::new(Cell::new(sites)), ..self }
    }

    /// The number of draws so far.
    pub fn sites(&self) -> u32 {
        self.site.get()
    }

    /// u32 bits for each element of a tensor whose axis 0 counts batch rows,
    /// unless [`Random::with_rows`] says how many there are. The last two axes
    /// of a row are those that padding may lengthen.
    pub fn bits(&self, dims: &[usize]) -> Result<Tensor> {
        let site = self.site.replace(self.site.get() + 1);
        let by_row = self.dims_by_row(dims);
        let (blocks, places) = by_row.split_at(by_row.len() - 2);
        let [first, second] = &self.keys;
        let [first, second] =
            [self.block_keys(first, site, blocks)?, self.block_keys(second, site, blocks)?];
        let keys = [self.at_positions(first)?, second];
        let places = numbered(self.row_offset.trace(), places, &self.first_places)?;
        hash(&places, &keys)?.reshape(dims)
    }

    /// Numbers from 0 up to but not 1 for each element, f32, where [`Random::bits`] draws their bits.
    pub fn uniform(&self, dims: &[usize]) -> Result<Tensor> {
        // As many bits as a float has digits, so that nothing is rounded.
        let digits = self.bits(dims)?.shift_right_logical_scalar(8.0)?;
        digits.convert(DType::F32)?.mul_scalar(1.0 / f64::from(1 << 24))
    }

    /// Numbers of the standard Gumbel distribution for each element, f32, where [`Random::bits`] draws their bits. The
    /// largest of logits to which they are added is at each place with the probability that softmax gives it.
    pub fn gumbel(&self, dims: &[usize]) -> Result<Tensor> {
        // The middles of 2^23 intervals from 0 to 1: float32 has all of them, and no logarithm is infinite.
        let number = self.bits(dims)?.shift_right_logical_scalar(9.0)?.convert(DType::F32)?;
        let uniform = number.add_scalar(0.5)?.mul_scalar(1.0 / f64::from(1 << 23))?;
        uniform.log()?.neg()?.log()?.neg()
    }

    /// Keys from which `block_bits` makes the bits that [`Random::bits`] would draw for `dims`, at
    /// least two, if its places count from 0: u32 `[2, batch rows, blocks of a row]`.
    pub(super) fn keys(&self, dims: &[usize]) -> Result<Tensor> {
        let site = self.site.replace(self.site.get() + 1);
        let by_row = self.dims_by_row(dims);
        let blocks = by_row[1..by_row.len() - 2].iter().product();
        let blocks_of_row = self.blocks.as_ref().map_or(blocks, |blocks| blocks.count);
        let rows = RowsOfKeys { rows: by_row[0], blocks, blocks_of_row };
        // XLA would compile all rounds of the hash anew for each site: most of what LLVM does for a small encoder.
        match self.row_offset.trace().calls_kernels() {
            true => self.keys_by_kernel(site, rows),
            false => self.keys_of_rows(site, rows),
        }
    }

    /// [`Random::keys`] of a site in one operation.
    fn keys_by_kernel(&self, site: u32, rows: RowsOfKeys) -> Result<Tensor> {
        let [first, second] = &self.keys;
        let mut inputs = vec![first, second, &self.row_offset];
        inputs.extend(self.tokens.iter().flat_map(|tokens| [&tokens.rows, &tokens.positions]));
        inputs.extend(self.blocks.iter().map(|blocks| &blocks.first));
        let (has_tokens, has_first_block) = (self.tokens.is_some(), self.blocks.is_some());
        let keys = DropoutKeys { site, rows, has_tokens, has_first_block };
        self.row_offset.trace().apply(keys, &inputs)
    }

    /// The source whose keys the operation gives.
    fn of_operands(of: &DropoutKeys, inputs: &[Tensor]) -> Random {
        let (own, others) = inputs.split_at(3);
        let (tokens, blocks) = others.split_at(if of.has_tokens { 2 } else { 0 });
        let tokens = match tokens {
            [rows, positions] => {
                Some(TokenPlaces { rows: rows.clone(), positions: positions.clone() })
            }
            _ => None,
        };
        let count = of.rows.blocks_of_row;
        Random {
            row_offset: own[2].clone(),
            rows: Some(of.rows.rows),
            keys: [own[0].clone(), own[1].clone()],
            site: Rc::default(),
            blocks: blocks.first().map(|first| Blocks { first: first.clone(), count }),
            first_places: [None, None],
            tokens,
        }
    }

    /// [`Random::keys`] of a site by operations on integers.
    fn keys_of_rows(&self, site: u32, rows: RowsOfKeys) -> Result<Tensor> {
        let blocks = [rows.rows, rows.blocks];
        let key = |key| self.block_keys(key, site, &blocks);
        let by_block = |key: Tensor| key.reshape(&[1, rows.rows, rows.blocks]);
        let first = by_block(self.at_positions(key(&self.keys[0])?)?)?;
        self.row_offset.trace().concatenate(&[&first, &by_block(key(&self.keys[1])?)?], 0)
    }

    /// `[rows, blocks of a row…, places, places]`.
    fn dims_by_row(&self, dims: &[usize]) -> Vec<usize> {
        let first = dims.first().copied().unwrap_or(1);
        let rows = self.rows.unwrap_or(first).max(1);
        let mut by_row = vec![rows, first / rows];
        by_row.extend(dims.iter().skip(1));
        by_row.resize(by_row.len().max(3), 1);
        by_row
    }

    /// A site's key for each block of each row, `[rows, blocks of a row…, 1, 1]`.
    fn block_keys(&self, key: &Tensor, site: u32, blocks: &[usize]) -> Result<Tensor> {
        let (rows, count) = (blocks[0], blocks[1..].iter().product());
        let trace = self.row_offset.trace();
        let row = match &self.tokens {
            Some(tokens) => tokens.rows.reshape(&[rows, 1])?,
            None => trace.iota(DType::U32, &[rows, 1], 0)?,
        };
        let row = row.add(&self.row_offset)?;
        let mut keys = next_key(&next_key(key, &trace.scalar(site.into(), DType::U32)?)?, &row)?;
        if self.blocks.as_ref().map_or(count, |blocks| blocks.count) > 1 {
            keys = next_key(&keys, &self.block_numbers(count)?)?;
        }
        keys.reshape(&[blocks, &[1, 1]].concat())
    }

    /// The first key of each block, `[rows, …, 1, 1]`. It is added to the numbers of places, so for tokens it begins
    /// with that of their position.
    fn at_positions(&self, key: Tensor) -> Result<Tensor> {
        let Some(tokens) = &self.tokens else { return Ok(key) };
        let mut dims = vec![1; key.rank()];
        dims[0] = tokens.positions.dims()[0];
        key.add(&tokens.positions.mul_scalar(PLACE_STRIDE.into())?.reshape(&dims)?)
    }

    /// The numbers of `count` blocks among those of the whole row, u32 `[1, count]`.
    fn block_numbers(&self, count: usize) -> Result<Tensor> {
        let numbers = self.row_offset.trace().iota(DType::U32, &[1, count], 1)?;
        match &self.blocks {
            Some(blocks) => numbers.add(&blocks.first),
            None => Ok(numbers),
        }
    }
}

/// The bits of each place of each block that is among `first` of the first axis and the first `columns`
/// of the second, `[rows, blocks of a row, places, places]`, from [`Random::keys`].
pub(super) fn block_bits(keys: &Tensor, first: Range<usize>, columns: usize) -> Result<Tensor> {
    let [rows, blocks] = [keys.dims()[1], keys.dims()[2]];
    let key = |index| keys.slice(0, index, index + 1)?.reshape(&[rows, blocks, 1, 1]);
    let from = match first.start {
        0 => None,
        start => Some(keys.trace().scalar(start as f64, DType::U32)?),
    };
    let places = numbered(keys.trace(), &[first.len(), columns], &[from, None])?;
    hash(&places, &[key(0)?, key(1)?])
}

/// The number of each place of a block, of which the first may be others than 0.
fn numbered(trace: &Trace, places: &[usize], firsts: &[Option<Tensor>; 2]) -> Result<Tensor> {
    let &[rows, columns] = places else { return trace.iota(DType::U32, places, 0) };
    let from = |first: &Option<Tensor>, places: Tensor| match first {
        Some(first) => places.add(first),
        None => Ok(places),
    };
    let row = from(&firsts[0], trace.iota(DType::U32, &[rows, 1], 0)?)?;
    let column = from(&firsts[1], trace.iota(DType::U32, &[1, columns], 1)?)?;
    row.mul_scalar(PLACE_STRIDE.into())?.add(&column)
}

/// The key of number `n` among those that follow from `key`.
fn next_key(key: &Tensor, n: &Tensor) -> Result<Tensor> {
    mix(&n.mul_scalar(GOLDEN.into())?.add(key)?)
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

/// Computes the bits of [`Random::bits`] for one element.
pub fn reference_bits(seed: u32, step: u32, at: Place) -> u32 {
    let keys = KEY_SALTS.map(|salt| {
        let next =
            |key: u32, n: u32| reference_hash(n.wrapping_mul(GOLDEN).wrapping_add(key), [0; 2]);
        let row = next(next(next(reference_hash(seed ^ salt, [0; 2]), step), at.site), at.row);
        at.block.map_or(row, |block| next(row, block))
    });
    reference_hash(at.first.wrapping_mul(PLACE_STRIDE).wrapping_add(at.second), keys)
}

/// Where an element is, for [`reference_bits`].
#[derive(Clone, Copy, Debug, Default)]
pub struct Place {
    /// Draws before it.
    pub site: u32,
    /// The row of the global batch.
    pub row: u32,
    /// The block of its row, where that has several.
    pub block: Option<u32>,
    /// The position on the last axis but one.
    pub first: u32,
    /// The position on the last axis.
    pub second: u32,
}

fn reference_hash(mut x: u32, keys: [u32; 2]) -> u32 {
    for round in 0..2 {
        x = x.wrapping_add(keys[round]);
        x = (x ^ (x >> SHIFTS[round])).wrapping_mul(MULTIPLIERS[round]);
    }
    x ^ (x >> SHIFTS[2])
}
