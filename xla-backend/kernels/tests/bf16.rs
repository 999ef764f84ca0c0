//! Products of operands that are rounded to bfloat16, against f64, over random shapes and layouts.

mod support;

use support::{Numbers, check_close};
use traind_kernels::bf16::{Addend, multiply};
use traind_kernels::matrix::{Matrix, MatrixMut};

/// The nearest bfloat16 number; ties go to the even one.
fn rounded(x: f32) -> f64 {
    let bits = x.to_bits();
    let bits = bits.wrapping_add(0x7fff + ((bits >> 16) & 1)) & 0xffff_0000;
    f64::from(f32::from_bits(bits))
}

/// An operand [lines, depth], stored so or transposed, with a gap behind each of its rows.
struct Operand {
    elements: Vec<f32>,
    lines: usize,
    depth: usize,
    stride: usize,
    transposed: bool,
}

impl Operand {
    fn random(numbers: &mut Numbers, [lines, depth]: [usize; 2]) -> Operand {
        let transposed = numbers.below(2) == 0;
        let stride = if transposed { lines } else { depth } + numbers.below(3);
        let elements = numbers.floats(stride * lines.max(depth));
        Operand { elements, lines, depth, stride, transposed }
    }

    fn place(&self, line: usize, depth: usize) -> usize {
        if self.transposed { depth * self.stride + line } else { line * self.stride + depth }
    }

    fn at(&self, line: usize, depth: usize) -> f32 {
        self.elements[self.place(line, depth)]
    }

    fn matrix(&self) -> Matrix<'_> {
        match self.transposed {
            true => Matrix::new(&self.elements, [self.depth, self.lines], self.stride).transposed(),
            false => Matrix::new(&self.elements, [self.lines, self.depth], self.stride),
        }
    }
}

/// A row of the result follows the one before it after `gap` elements, which keep what they hold.
fn product(lhs: &Operand, rhs: &Operand, bias: &[f32], gap: usize) -> Vec<f32> {
    let (rows, columns) = (lhs.lines, rhs.lines);
    let mut got = vec![f32::NAN; rows * (columns + gap)];
    let to = MatrixMut::new(&mut got, [rows, columns], columns + gap);
    multiply(to, lhs.matrix(), rhs.matrix().transposed(), Addend::Bias(bias));
    got
}

fn check_product(numbers: &mut Numbers, [rows, columns, depth]: [usize; 3]) {
    let lhs = Operand::random(numbers, [rows, depth]);
    let rhs = Operand::random(numbers, [columns, depth]);
    let has_bias = numbers.below(2) == 0;
    let bias = if has_bias { numbers.floats(columns) } else { Vec::new() };
    let gap = numbers.below(3);
    let got = product(&lhs, &rhs, &bias, gap);
    for (i, row) in got.chunks(columns + gap).enumerate() {
        let expected = |j: usize| {
            let of = |k| rounded(lhs.at(i, k)) * rounded(rhs.at(j, k));
            (0..depth).map(of).sum::<f64>() + bias.get(j).map_or(0.0, |&bias| f64::from(bias))
        };
        let expected: Vec<f64> = (0..columns).map(expected).collect();
        let what = format!("row {i} of {rows}, {columns}, {depth}");
        check_close(&what, &row[..columns], &expected, 2e-6);
        assert!(row[columns..].iter().all(|x| x.is_nan()), "{what}: the gap is overwritten");
    }
}

#[test]
fn products_are_those_of_f64() {
    let mut numbers = Numbers(1);
    for _ in 0..80 {
        let sizes = [1 + numbers.below(70), 1 + numbers.below(70), 1 + numbers.below(90)];
        check_product(&mut numbers, sizes);
    }
}

/// Blocks have at most a thousand rows, columns and depths.
#[test]
fn products_of_several_blocks_are_those_of_f64() {
    let mut numbers = Numbers(2);
    for sizes in [[1100, 3, 70], [5, 3500, 40], [20, 33, 2100], [470, 800, 530]] {
        check_product(&mut numbers, sizes);
    }
}

/// Products of several blocks of each size are added, with rows that are not contiguous.
#[test]
fn a_product_is_added_to_what_the_result_holds() {
    let mut numbers = Numbers(4);
    for [rows, columns, depth] in [[3, 5, 7], [230, 40, 1100], [20, 1100, 0], [9, 1100, 2100]] {
        let lhs = Operand::random(&mut numbers, [rows, depth]);
        let rhs = Operand::random(&mut numbers, [columns, depth]);
        let stride = columns + 2;
        let before = numbers.floats(rows * stride);
        let mut got = before.clone();
        let to = MatrixMut::new(&mut got, [rows, columns], stride);
        multiply(to, lhs.matrix(), rhs.matrix().transposed(), Addend::Sum);
        let product = product(&lhs, &rhs, &[], 0);
        for (i, (got, before)) in got.chunks(stride).zip(before.chunks(stride)).enumerate() {
            let product = &product[i * columns..][..columns];
            let expected: Vec<f64> =
                before.iter().zip(product).map(|(&x, &y)| f64::from(x) + f64::from(y)).collect();
            let what = format!("row {i} of {rows}, {columns}, {depth}");
            check_close(&what, &got[..columns], &expected, 2e-6);
            assert_eq!(got[columns..], before[columns..], "{what}: the gap is overwritten");
        }
    }
}

#[test]
fn nan_and_infinities_spoil_their_rows_alone() {
    let mut numbers = Numbers(3);
    for (odd, expected) in [(f32::NAN, f32::NAN), (f32::INFINITY, f32::INFINITY)] {
        let mut lhs = Operand::random(&mut numbers, [30, 50]);
        let mut rhs = Operand::random(&mut numbers, [40, 50]);
        rhs.elements.iter_mut().for_each(|x| *x = x.abs() + 0.1);
        let place = lhs.place(17, 31);
        lhs.elements[place] = odd;
        let got = product(&lhs, &rhs, &[], 0);
        for (index, &x) in got.iter().enumerate() {
            match index / 40 {
                17 if expected.is_nan() => assert!(x.is_nan()),
                17 => assert_eq!(x, expected),
                _ => assert!(x.is_finite()),
            }
        }
    }
}

/// Numbers are rounded to the nearest one: beyond the largest bfloat16 number lies infinity.
#[test]
fn the_largest_floats_round_to_infinity() {
    let mut got = [0.0];
    let to = MatrixMut::new(&mut got, [1, 1], 1);
    multiply(
        to,
        Matrix::new(&[f32::MAX], [1, 1], 1),
        Matrix::new(&[1.0], [1, 1], 1),
        Addend::Bias(&[]),
    );
    assert_eq!(got, [f32::INFINITY]);
}

#[test]
fn no_depth_gives_the_bias() {
    let mut got = [f32::NAN; 6];
    let (lhs, rhs) = (Matrix::new(&[], [2, 0], 0), Matrix::new(&[], [0, 3], 3));
    multiply(MatrixMut::new(&mut got, [2, 3], 3), lhs, rhs, Addend::Bias(&[1.0, 2.0, 3.0]));
    assert_eq!(got, [1.0, 2.0, 3.0, 1.0, 2.0, 3.0]);
}
