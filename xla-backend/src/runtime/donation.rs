//! Whether results may replace arguments in place. Users of some devices report wrong results, and compilers that
//! refuse programs which read an argument behind its replacement.

use traind_neuron::Cause;
use traind_pjrt::{Client, ExecuteOptions};

use super::Compiler;
use super::platform::forms;
use crate::error::{Error, Result};
use crate::graph::{DType, Shape};
use crate::stablehlo::{Lowering, Output, Program, lower};
use crate::tensor::Trace;

const DIMS: [usize; 2] = [4, 8];
const RUNS: u32 = 2;
const FIRST_NUMBER: u32 = 7;

/// Runs a program of the shapes in the reports: it replaces a matrix that it reads again, and a scalar. Its results
/// become the next run's arguments. An error of the compiler or the device about the program is a no.
pub(super) fn donation_works(compiler: &Compiler) -> Result<bool> {
    match run(compiler) {
        Err(error) if !is_about_program(&error) => Err(error),
        outcome => Ok(outcome.unwrap_or(false)),
    }
}

/// A compiler that was killed, or cores that another process holds, say nothing about a program.
fn is_about_program(error: &Error) -> bool {
    let explained = traind_neuron::explain(&error.to_string());
    !explained.is_some_and(|it| matches!(it.cause, Cause::Setup | Cause::Busy | Cause::HostMemory))
}

/// Whether the results of that program are right, or the error of the compiler or the device.
pub fn donation_outcome(client: &Client) -> Result<bool> {
    run(&Compiler::for_first_device(client, None)?)
}

fn program(client: &Client) -> Result<Program> {
    let trace = Trace::new();
    let x = trace.parameter("x", Shape::new(DType::F32, DIMS))?;
    let number = trace.parameter("number", Shape::scalar(DType::U32))?;
    let doubled = x.add(&x)?;
    let product = doubled.mul(&x)?;
    let next = number.add_scalar(1.0)?;
    let replacing =
        |node, argument| Output { aliases_parameter: Some(argument), ..Output::new(node) };
    let outputs =
        [replacing(doubled.node(), 0), Output::new(product.node()), replacing(next.node(), 1)];
    let lowering = Lowering { forms: forms(client.platform_name()), ..Lowering::default() };
    Ok(lower(&trace.graph(), "donation", &outputs, 1, lowering))
}

fn run(compiler: &Compiler) -> Result<bool> {
    let (client, device) = (compiler.cores().client(), compiler.cores().device(0));
    let (executable, _) = compiler.compile(&program(client)?)?;
    let mut values: Vec<f32> = (0..DIMS[0] * DIMS[1]).map(|it| it as f32 / 4.0 - 3.0).collect();
    let mut x = client.buffer_from_slice(&values, &DIMS, device)?;
    let mut number = client.buffer_from_slice(&[FIRST_NUMBER], &[], device)?;
    for run in 1..=RUNS {
        let results = executable.execute(&[[&x, &number]], &ExecuteOptions::default())?;
        let buffers = results.into_iter().next().map(|of_device| of_device.buffers);
        let Some(Ok([doubled, product, next])) = buffers.map(<[_; 3]>::try_from) else {
            return Ok(false);
        };
        let products: Vec<f32> = values.iter().map(|value| 2.0 * value * value).collect();
        values.iter_mut().for_each(|value| *value *= 2.0);
        let is_right = doubled.to_vec::<f32>()? == values
            && product.to_vec::<f32>()? == products
            && next.to_vec::<u32>()? == [FIRST_NUMBER + run];
        if !is_right {
            return Ok(false);
        }
        (x, number) = (doubled, next);
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use traind_pjrt::{Error as PjrtError, ErrorCode};

    use super::*;

    #[test]
    fn a_killed_compiler_says_nothing_about_donation() {
        let about = |message: &str| {
            let (call, code) = ("PJRT_Client_Compile", ErrorCode::Internal);
            is_about_program(&PjrtError::Plugin { call, code, message: message.to_owned() }.into())
        };
        assert!(!about("[F137] neuronx-cc was forcibly killed"));
        assert!(!about("NeuronCore(s) not available - Requested:nc1-nc1 Available:0"));
        assert!(about("nrt_execute failed: status=1300"));
        assert!(about("an argument is read behind its replacement"));
        assert!(about("[ERROR] [NCC_EVRF001] Operation is not supported"));
    }
}
