//! The ends of products that are left out: results are those of the whole products.

mod support;

use support::{Numbers, check_close};
use traind_kernels::matrix::{Matrix, MatrixMut, multiply, without_end};

/// The left and the right operand, row by row, and their sizes.
struct Operands {
    lhs: Vec<f32>,
    rhs: Vec<f32>,
    rows: usize,
    depth: usize,
    columns: usize,
    /// The left operand is stored as [depth, rows].
    transposed: bool,
}

impl Operands {
    fn random(numbers: &mut Numbers, transposed: bool) -> Operands {
        let [rows, depth, columns] = [0; 3].map(|_| 2 + numbers.below(150));
        let (lhs, rhs) = (numbers.floats(rows * depth), numbers.floats(depth * columns));
        Operands { lhs, rhs, rows, depth, columns, transposed }
    }

    fn lhs(&self) -> Matrix<'_> {
        match self.transposed {
            true => Matrix::new(&self.lhs, [self.depth, self.rows], self.rows).transposed(),
            false => Matrix::new(&self.lhs, [self.rows, self.depth], self.depth),
        }
    }

    /// The product without its end, and the rows and the depth that were multiplied.
    fn without_end(&self, before: &[f32], accumulates: bool) -> (Vec<f32>, [usize; 2]) {
        let (mut result, mut multiplied) = (before.to_vec(), [0; 2]);
        let to = MatrixMut::new(&mut result, [self.rows, self.columns], self.columns);
        let rhs = Matrix::new(&self.rhs, [self.depth, self.columns], self.columns);
        without_end(to, self.lhs(), rhs, accumulates, |to, lhs, rhs| {
            multiplied = [lhs.rows(), lhs.columns()];
            multiply(to, lhs, rhs, accumulates);
        });
        (result, multiplied)
    }

    fn whole(&self, before: &[f32], accumulates: bool) -> Vec<f64> {
        let mut result = before.to_vec();
        let to = MatrixMut::new(&mut result, [self.rows, self.columns], self.columns);
        let rhs = Matrix::new(&self.rhs, [self.depth, self.columns], self.columns);
        multiply(to, self.lhs(), rhs, accumulates);
        result.into_iter().map(f64::from).collect()
    }

    fn check(&self, numbers: &mut Numbers, accumulates: bool, expect: [usize; 2]) {
        let before = numbers.floats(self.rows * self.columns);
        let (found, multiplied) = self.without_end(&before, accumulates);
        assert_eq!(multiplied, expect);
        check_close("product", &found, &self.whole(&before, accumulates), 1e-6);
    }
}

#[test]
fn equal_rows_at_the_end_are_multiplied_once() {
    let mut numbers = Numbers(5);
    for _ in 0..40 {
        let mut operands = Operands::random(&mut numbers, false);
        let Operands { rows, depth, .. } = operands;
        let distinct = 1 + numbers.below(rows);
        for row in distinct..rows {
            operands.lhs.copy_within((distinct - 1) * depth..distinct * depth, row * depth);
        }
        operands.check(&mut numbers, false, [distinct, depth]);
        operands.check(&mut numbers, true, [rows, depth]);
    }
}

#[test]
fn zeros_at_the_end_of_sums_are_not_multiplied() {
    let mut numbers = Numbers(6);
    for round in 0..40 {
        let mut operands = Operands::random(&mut numbers, true);
        let Operands { rows, depth, columns, .. } = operands;
        let end = 1 + numbers.below(depth);
        match round % 2 {
            0 => operands.lhs[end * rows..].fill(0.0),
            _ => operands.rhs[end * columns..].fill(-0.0),
        }
        for accumulates in [false, true] {
            operands.check(&mut numbers, accumulates, [rows, end]);
        }
    }
}

#[test]
fn zeros_times_what_is_not_finite_are_multiplied() {
    let mut numbers = Numbers(7);
    for odd in [f32::INFINITY, f32::NEG_INFINITY, f32::NAN] {
        let mut operands = Operands::random(&mut numbers, true);
        let Operands { rows, depth, columns, .. } = operands;
        operands.lhs[(depth - 1) * rows..].fill(0.0);
        operands.rhs[depth * columns - 1] = odd;
        let (found, multiplied) = operands.without_end(&vec![0.0; rows * columns], false);
        assert_eq!(multiplied, [rows, depth]);
        assert!(found.chunks(columns).all(|row| row[columns - 1].is_nan()), "{odd}");
    }
}

#[test]
fn the_bits_of_rows_are_compared() {
    let rows = [0.0, -0.0, -0.0];
    let operands = Operands {
        lhs: rows.into(),
        rhs: vec![1.0],
        rows: 3,
        depth: 1,
        columns: 1,
        transposed: false,
    };
    assert_eq!(operands.without_end(&[0.0; 3], false).1, [2, 1]);
    let nan = Operands { lhs: vec![f32::NAN; 3], ..operands };
    let (found, multiplied) = nan.without_end(&[0.0; 3], false);
    assert_eq!(multiplied, [1, 1]);
    assert!(found.iter().all(|x| x.is_nan()));
}
