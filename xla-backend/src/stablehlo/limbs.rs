//! Sums, products and comparisons of unsigned 32-bit integers by parts small enough for float32, in which some devices
//! compute integers: exact up to 2²⁴. Bitwise operations and shifts are exact there.

use super::{Emitter, Value};
use crate::graph::{DType, Shape};

/// Half of the bits: sums of halves are small enough.
const HALF_BITS: f64 = 16.0;
const HALF: f64 = 65535.0;
/// Products of two limbs are less than 2²⁴.
const LIMB_BITS: f64 = 12.0;
const LIMB: f64 = 4095.0;
/// The bits of a 32-bit number above two limbs.
const TOP: f64 = 255.0;

impl Emitter {
    /// Lowers an operation on two operands by parts, where integers are inexact; `None` where the operation itself is
    /// exact.
    pub(crate) fn by_parts(&mut self, op: &str, inputs: &[Value]) -> Option<Value> {
        let [a, b] = inputs else { return None };
        if !self.splits_integers() || a.shape.dtype != DType::U32 {
            return None;
        }
        match op {
            "add" => Some(self.sum(a, b, 0.0)),
            // The complement and one more is the negative number.
            "subtract" => {
                let complement = self.with_number("xor", b, f64::from(u32::MAX));
                Some(self.sum(a, &complement, 1.0))
            }
            "multiply" => Some(self.product(a, b)),
            _ => None,
        }
    }

    /// Lowers a comparison of the same kind. `direction` is StableHLO's.
    pub(crate) fn compared_by_parts(&mut self, direction: &str, inputs: &[Value]) -> Option<Value> {
        let [a, b] = inputs else { return None };
        if !self.splits_integers() || a.shape.dtype != DType::U32 {
            return None;
        }
        Some(match direction {
            "LT" => self.is_less(a, b),
            "GT" => self.is_less(b, a),
            "GE" => self.is_not_less(a, b),
            "LE" => self.is_not_less(b, a),
            _ => self.compared_with_zero(direction, a, b),
        })
    }

    fn sum(&mut self, a: &Value, b: &Value, more: f64) -> Value {
        let [low_a, low_b] = [a, b].map(|it| self.with_number("and", it, HALF));
        let [high_a, high_b] =
            [a, b].map(|it| self.with_number("shift_right_logical", it, HALF_BITS));
        let mut low = self.same_type("add", &[&low_a, &low_b]);
        if more != 0.0 {
            low = self.with_number("add", &low, more);
        }
        let carry = self.with_number("shift_right_logical", &low, HALF_BITS);
        let high = self.same_type("add", &[&high_a, &high_b]);
        let high = self.same_type("add", &[&high, &carry]);
        let high = self.with_number("shift_left", &high, HALF_BITS);
        let low = self.with_number("and", &low, HALF);
        self.same_type("or", &[&high, &low])
    }

    /// Three limbs, the last of 8 bits; more of the product is beyond 32 bits.
    fn product(&mut self, a: &Value, b: &Value) -> Value {
        let [a, b] = [a, b].map(|it| self.limbs(it));
        let mut carry = None;
        let mut result = None;
        for place in 0..3 {
            let mut sum: Option<Value> = carry.take();
            let mut over: Option<Value> = None;
            for left in 0..=place {
                let product = self.same_type("multiply", &[&a[left], &b[place - left]]);
                let low = self.with_number("and", &product, LIMB);
                let high = self.with_number("shift_right_logical", &product, LIMB_BITS);
                sum = Some(self.added(sum, low));
                over = Some(self.added(over, high));
            }
            let (Some(sum), Some(over)) = (sum, over) else { continue };
            let above = self.with_number("shift_right_logical", &sum, LIMB_BITS);
            carry = Some(self.same_type("add", &[&over, &above]));
            let kept = self.with_number("and", &sum, if place == 2 { TOP } else { LIMB });
            let shifted = self.with_number("shift_left", &kept, LIMB_BITS * place as f64);
            result = Some(match result {
                Some(result) => self.same_type("or", &[&result, &shifted]),
                None => shifted,
            });
        }
        result.unwrap_or_else(|| a[0].clone())
    }

    fn limbs(&mut self, value: &Value) -> [Value; 3] {
        let middle = self.with_number("shift_right_logical", value, LIMB_BITS);
        let top = self.with_number("shift_right_logical", value, 2.0 * LIMB_BITS);
        [self.with_number("and", value, LIMB), self.with_number("and", &middle, LIMB), top]
    }

    fn added(&mut self, sum: Option<Value>, value: Value) -> Value {
        match sum {
            Some(sum) => self.same_type("add", &[&sum, &value]),
            None => value,
        }
    }

    fn is_less(&mut self, a: &Value, b: &Value) -> Value {
        let [low_a, low_b] = [a, b].map(|it| self.with_number("and", it, HALF));
        let [high_a, high_b] =
            [a, b].map(|it| self.with_number("shift_right_logical", it, HALF_BITS));
        let is_less = self.compared("LT", &high_a, &high_b);
        let is_equal = self.compared("EQ", &high_a, &high_b);
        let is_less_below = self.compared("LT", &low_a, &low_b);
        let both = self.same_type("and", &[&is_equal, &is_less_below]);
        self.same_type("or", &[&is_less, &both])
    }

    fn is_not_less(&mut self, a: &Value, b: &Value) -> Value {
        let is_less = self.is_less(a, b);
        self.same_type("not", &[&is_less])
    }

    /// Rounding makes no number zero but zero.
    fn compared_with_zero(&mut self, direction: &str, a: &Value, b: &Value) -> Value {
        let difference = self.same_type("xor", &[a, b]);
        let zero = self.splat(0.0, &a.shape);
        self.compared(direction, &difference, &zero)
    }

    fn compared(&mut self, direction: &str, a: &Value, b: &Value) -> Value {
        let to: Shape = a.shape.with_dtype(DType::Pred);
        self.typed(&format!("compare {direction},"), &[a, b], "UNSIGNED", &to)
    }

    fn with_number(&mut self, op: &str, value: &Value, number: f64) -> Value {
        let number = self.splat(number, &value.shape);
        self.same_type(op, &[value, &number])
    }
}
