//! The parts in which attention is computed.

use std::ops::Range;

use super::Dims;
use crate::math::LANES;
use crate::matrix::{Matrix, MatrixMut};

/// The length of a row of scores in scratch memory.
pub(super) fn columns(keys: usize) -> usize {
    keys.next_multiple_of(LANES)
}

/// One head of one row.
#[derive(Clone, Copy)]
pub(super) struct Head {
    pub(super) dims: Dims,
    pub(super) row: usize,
    pub(super) head: usize,
}

impl Head {
    pub(super) fn index(&self) -> usize {
        self.row * self.dims.heads + self.head
    }

    pub(super) fn statistics(&self) -> Range<usize> {
        let len = 2 * self.dims.positions;
        self.index() * len..(self.index() + 1) * len
    }
}

/// Consecutive queries of one head, and the keys that any of them sees.
pub(super) struct Block {
    pub(super) head: Head,
    pub(super) queries: Range<usize>,
    pub(super) keys: Range<usize>,
}

impl Block {
    /// The offset of its first query in [B S, N D].
    pub(super) fn offset(&self) -> usize {
        let (dims, head) = (&self.head.dims, &self.head);
        let token = head.row * dims.positions + self.queries.start;
        token * dims.hidden() + head.head * dims.head_size
    }

    /// The offset of its first key in [B S, K D].
    fn key_offset(&self) -> usize {
        let (dims, head) = (&self.head.dims, &self.head);
        let token = head.row * dims.positions + self.keys.start;
        token * dims.key_hidden() + head.head * dims.key_heads / dims.heads * dims.head_size
    }

    pub(super) fn queries_of<'a>(&self, of: &'a [f32]) -> Matrix<'a> {
        let dims = &self.head.dims;
        let shape = [self.queries.len(), dims.head_size];
        Matrix::new(&of[self.offset()..], shape, dims.hidden())
    }

    pub(super) fn queries_mut<'a>(&self, of: &'a mut [f32]) -> MatrixMut<'a> {
        let dims = &self.head.dims;
        let shape = [self.queries.len(), dims.head_size];
        MatrixMut::new(&mut of[self.offset()..], shape, dims.hidden())
    }

    pub(super) fn keys_of<'a>(&self, of: &'a [f32]) -> Matrix<'a> {
        let dims = &self.head.dims;
        let shape = [self.keys.len(), dims.head_size];
        Matrix::new(&of[self.key_offset()..], shape, dims.key_hidden())
    }

    pub(super) fn keys_mut<'a>(&self, of: &'a mut [f32]) -> MatrixMut<'a> {
        let dims = &self.head.dims;
        let shape = [self.keys.len(), dims.head_size];
        MatrixMut::new(&mut of[self.key_offset()..], shape, dims.key_hidden())
    }

    /// The scores of its queries in scratch memory.
    pub(super) fn matrix<'a>(&self, scores: &'a [f32]) -> Matrix<'a> {
        Matrix::new(scores, [self.queries.len(), self.keys.len()], columns(self.keys.len()))
    }

    pub(super) fn matrix_mut<'a>(&self, scores: &'a mut [f32]) -> MatrixMut<'a> {
        MatrixMut::new(scores, [self.queries.len(), self.keys.len()], columns(self.keys.len()))
    }

    /// The number of elements of scratch memory.
    pub(super) fn elements(&self) -> usize {
        self.queries.len() * columns(self.keys.len())
    }
}
