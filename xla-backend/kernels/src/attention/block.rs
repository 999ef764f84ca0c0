//! The parts in which attention is computed.

use std::ops::Range;

use super::Dims;
use crate::math::LANES;
use crate::matrix::{Matrix, MatrixMut};

/// The length of a row of scores in scratch memory.
pub(super) fn columns(keys: usize) -> usize {
    keys.next_multiple_of(LANES)
}

/// The tokens of one row.
#[derive(Clone, Copy)]
pub(super) struct Span {
    pub(super) row: usize,
    /// The place of the first one among the tokens of all rows.
    pub(super) token: usize,
    /// The position of the first one in the row.
    first: usize,
    pub(super) len: usize,
}

impl Span {
    /// All positions of a padded row.
    pub(super) fn of_padded(row: usize, positions: usize) -> Span {
        Span { row, token: row * positions, first: 0, len: positions }
    }

    /// The tokens of a packed row, of which `tokens` has the place of each position among `count`, and at least `count`
    /// where there is no token. They stand one behind the other, not before `end`.
    pub(super) fn of_packed(row: usize, tokens: &[i32], count: usize, end: usize) -> Span {
        let place = |token: &i32| usize::try_from(*token).ok().filter(|token| *token < count);
        let Some(first) = tokens.iter().position(|token| place(token).is_some()) else {
            return Span { row, token: end, first: 0, len: 0 };
        };
        let mut places = tokens[first..].iter().map_while(place).peekable();
        let token = places.peek().copied().unwrap_or(end);
        let len = (token..).zip(places).take_while(|(expected, token)| expected == token).count();
        let is_whole = tokens[first + len..].iter().all(|token| place(token).is_none());
        assert!(is_whole && token >= end, "the tokens of row {row} stand apart or before others");
        Span { row, token, first, len }
    }

    pub(super) fn positions(&self) -> Range<usize> {
        self.first..self.first + self.len
    }

    /// The place of the token at `position` among those of all rows.
    fn token_at(&self, position: usize) -> usize {
        self.token + position - self.first
    }
}

/// One head of one row.
#[derive(Clone, Copy)]
pub(super) struct Head {
    pub(super) dims: Dims,
    pub(super) span: Span,
    pub(super) head: usize,
}

impl Head {
    pub(super) fn index(&self) -> usize {
        self.span.row * self.dims.heads + self.head
    }

    pub(super) fn statistics(&self) -> Range<usize> {
        let len = 2 * self.dims.positions;
        self.index() * len..(self.index() + 1) * len
    }
}

/// Consecutive queries of one head, and the keys that any of them sees, by their positions in the row.
pub(super) struct Block {
    pub(super) head: Head,
    pub(super) queries: Range<usize>,
    pub(super) keys: Range<usize>,
}

impl Block {
    /// The offset of its first query in [T, N D].
    pub(super) fn offset(&self) -> usize {
        let (dims, head) = (&self.head.dims, &self.head);
        let token = head.span.token_at(self.queries.start);
        token * dims.hidden() + head.head * dims.head_size
    }

    /// The offset of its first key in [T, K D].
    fn key_offset(&self) -> usize {
        let (dims, head) = (&self.head.dims, &self.head);
        let token = head.span.token_at(self.keys.start);
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
