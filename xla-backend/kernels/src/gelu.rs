//! GELU with the error function: x Φ(x) (Hendrycks and Gimpel 2016).

use crate::dispatch::vectorized;
use crate::math::normal;

/// 1 / √(2π).
const DENSITY_AT_ZERO: f32 = 0.398_942_3;

vectorized! {
    /// `y = x Φ(x)`.
    pub fn forward(x: &[f32], y: &mut [f32]) {
        assert_eq!(x.len(), y.len());
        for (y, &x) in y.iter_mut().zip(x) {
            *y = x * normal(x).0;
        }
    }

    /// `dx = dy (Φ(x) + x φ(x))`, where φ is the normal density.
    pub fn backward(x: &[f32], dy: &[f32], dx: &mut [f32]) {
        assert_eq!(x.len(), dy.len());
        assert_eq!(x.len(), dx.len());
        for ((dx, &x), &dy) in dx.iter_mut().zip(x).zip(dy) {
            let (below, density) = normal(x);
            *dx = dy * (x * DENSITY_AT_ZERO).mul_add(density, below);
        }
    }
}
