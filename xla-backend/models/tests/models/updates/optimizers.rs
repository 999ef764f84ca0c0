//! Each optimizer against PyTorch's, step after step, on the parameters of
//! `fixtures/optimizers`.

use std::collections::BTreeMap;

use safetensors::SafeTensors;
use traind_choices::Optim;
use traind_models::optimizers::{self, Arg, Optimizer, Scalars, Settings, Shardable, Update};
use traind_models::parameters::{Init, ParameterPath};
use traind_models::{Dimension, ParameterSpec, Role, Stage};
use traind_xla::runtime::HostArray;
use traind_xla::{DType, Shape, Trace};

use crate::fixture::{floats, folder_of};
use crate::support::{Program, check_close};

/// The settings of `scripts/fixtures/optimizers.py`.
const RATES: [f64; 5] = [1e-3, 2e-3, 3e-3, 1e-3, 5e-4];
const WEIGHT_DECAY: f64 = 0.05;
/// Name, dims and whether it is decayed.
const PARAMETERS: [(&str, &[usize], bool); 3] =
    [("matrix", &[3, 4], true), ("stack", &[2, 3, 5], true), ("vector", &[6], false)];

/// Each optimizer of the list with the settings that it has by itself.
#[test]
fn every_optimizer_is_that_of_its_package() {
    let fixture = expected();
    for optim in Optim::ALL {
        let name = optim.as_str();
        let has_case = fixture.keys().any(|key| key.starts_with(&format!("{name}.")));
        assert!(has_case, "scripts/fixtures/optimizers.py has no {name}");
        match optim {
            // It updates matrices of hidden layers alone.
            Optim::Muon => check_muon(name, &[], 2e-6),
            _ => check(name, name, &[]),
        }
    }
}

#[test]
fn sgd_is_that_of_pytorch() {
    check("sgd_nesterov", "sgd", &[("momentum", 0.9), ("nesterov", 1.0)]);
    check("sgd_dampening", "sgd", &[("momentum", 0.9), ("dampening", 0.5)]);
}

#[test]
fn adagrad_is_that_of_pytorch() {
    check("adagrad_lr_decay", "adagrad", &[("lr_decay", 0.1), ("eps", 1e-6)]);
}

#[test]
fn rmsprop_is_that_of_pytorch() {
    let args = [("alpha", 0.9), ("momentum", 0.5), ("centered", 1.0)];
    check("rmsprop_centered", "rmsprop", &args);
}

#[test]
fn schedule_free_adamw_is_that_of_its_package() {
    check_evaluated("schedule_free_adamw", 0.9, &[]);
    let args = [("weight_lr_power", 1.0), ("r", 0.5)];
    check_evaluated("schedule_free_weights", 0.8, &args);
}

/// A wide matrix of a hidden layer, a tall one, a square one and a vector. PyTorch's iteration computes in bfloat16,
/// which the fixture's `muon` does not.
#[test]
fn muon_is_that_of_pytorch() {
    let word = |word: &str| Arg::Word(word.to_owned());
    check_muon("muon_bfloat16", &[], 3e-4);
    let plain = [
        ("momentum", Arg::Number(0.8)),
        ("nesterov", Arg::Number(0.0)),
        ("ns_steps", Arg::Number(3.0)),
        ("ns_coefficients", Arg::Numbers(vec![2.0, -1.5, 0.5])),
        ("adjust_lr_fn", word("match_rms_adamw")),
    ];
    check_muon("muon_plain", &plain, 2e-6);
    check_muon("muon_original", &[("adjust_lr_fn", word("original"))], 2e-6);
}

/// Embeddings, heads, stacks of matrices and vectors are AdamW's.
#[test]
fn muon_leaves_all_but_hidden_matrices_to_adamw() {
    let spec = |role, dims: &[usize], stage| ParameterSpec { role, ..spec("a", dims, stage) };
    let muon = build("muon", &[]);
    let slots = |spec: &ParameterSpec| {
        muon.slots(spec).into_iter().map(|slot| slot.name).collect::<Vec<_>>()
    };
    let hidden = [Role::Projection, Role::TransposedProjection];
    for role in hidden {
        let spec = spec(role, &[3, 4], Stage::Layer(1));
        assert_eq!(slots(&spec), ["momentum_buffer"]);
        assert_eq!(muon.shardable(&spec), Shardable::Gathered);
    }
    for (role, dims, stage) in [
        (Role::Projection, &[3, 4][..], Stage::Head),
        (Role::Projection, &[3, 4], Stage::Embeddings),
        (Role::Projection, &[3, 4, 5], Stage::Layer(1)),
        (Role::Embedding, &[3, 4], Stage::Layer(1)),
        (Role::Norm, &[3], Stage::Layer(1)),
        (Role::Bias, &[3], Stage::Layer(1)),
    ] {
        let spec = spec(role, dims, stage);
        assert_eq!(slots(&spec), ["exp_avg", "exp_avg_sq"], "{role:?} {stage:?}");
        assert_eq!(muon.shardable(&spec), Shardable::ByElement);
    }
}

#[test]
fn settings_of_muon_are_checked() {
    let error = |name: &str, arg: Arg| {
        let args = [(name.to_owned(), arg)].into();
        let settings = Settings { args, ..Settings::default() };
        optimizers::build("muon", &settings).err().unwrap().to_string()
    };
    assert!(error("ns_steps", Arg::Number(2.5)).contains("ns_steps: expected a whole number"));
    assert!(error("momentum", Arg::Number(-1.0)).starts_with("momentum: expected"));
    let coefficients = error("ns_coefficients", Arg::Numbers(vec![1.0]));
    assert!(coefficients.ends_with("expected 3 numbers, found 1"), "{coefficients}");
    let word = error("adjust_lr_fn", Arg::Word("mean".to_owned()));
    assert!(word.ends_with("known are original, match_rms_adamw"), "{word}");
}

/// Adafactor's update of an element depends on all others, and that of Muon's matrices on all others' momentum.
#[test]
fn updates_by_element_can_be_sharded() {
    let matrix = spec("matrix", &[3, 4], Stage::Layer(0));
    for optim in Optim::ALL {
        let expect = match optim {
            Optim::Adafactor => Shardable::No,
            Optim::Muon => Shardable::Gathered,
            _ => Shardable::ByElement,
        };
        assert_eq!(build(optim.as_str(), &[]).shardable(&matrix), expect, "{optim}");
    }
}

#[test]
fn adafactor_keeps_rows_and_columns_of_a_matrix() {
    let slots = |dims: &[usize]| -> Vec<(&str, Vec<usize>)> {
        let slots = build("adafactor", &[]).slots(&spec("a", dims, Stage::Head));
        slots.into_iter().map(|slot| (slot.name, slot.shape.dims)).collect()
    };
    assert_eq!(slots(&[7]), [("exp_avg_sq", vec![7])]);
    let factors = [("exp_avg_sq_row", vec![2, 3]), ("exp_avg_sq_col", vec![2, 5])];
    assert_eq!(slots(&[2, 3, 5]), factors);
}

#[test]
fn unusable_settings_are_named() {
    let settings = Settings { weight_decay: -1.0, ..Settings::default() };
    for optim in Optim::ALL {
        let error = optimizers::build(optim.as_str(), &settings).err().unwrap().to_string();
        assert_eq!(error, "weight_decay: expected a finite number of at least 0, found -1");
    }
}

/// A parameter whose stage alone distinguishes it.
fn spec(name: &str, dims: &[usize], stage: Stage) -> ParameterSpec {
    let mut specs = Vec::new();
    let dims: Vec<Dimension> = dims.iter().copied().map(Dimension::from).collect();
    let root = ParameterPath::root(&mut specs);
    root.in_stage(stage).declare(name, Role::Projection, &dims, Init::Zeros);
    specs.remove(0)
}

fn build(optim: &str, args: &[(&str, f64)]) -> Box<dyn Optimizer> {
    let args = args.iter().map(|(name, value)| ((*name).to_owned(), Arg::Number(*value))).collect();
    let settings = Settings { weight_decay: WEIGHT_DECAY, args, ..Settings::default() };
    optimizers::build(optim, &settings).unwrap()
}

/// The fixture's values by name.
fn expected() -> BTreeMap<String, Vec<f32>> {
    let file = std::fs::read(folder_of("optimizers").join("expected.safetensors")).unwrap();
    let tensors = SafeTensors::deserialize(&file).unwrap();
    let names = tensors.names().into_iter();
    names.map(|name| (name.to_owned(), floats(&tensors, name).unwrap())).collect()
}

/// Compares with the part `expect` of the fixture.
fn check(expect: &str, optim: &str, args: &[(&str, f64)]) {
    let expected = expected();
    for (name, dims, weight_decay) in PARAMETERS {
        let values = |part: &str| &expected[&format!("{part}.{name}")];
        let spec = spec(name, dims, Stage::Head);
        let got =
            train(&*build(optim, args), &spec, weight_decay, values("start"), values("gradients"));
        check_close(&format!("{expect}.{name}"), &got, values(expect), 2e-6);
    }
}

/// Compares Muon with the part `expect` of the fixture, on matrices alone.
fn check_muon(expect: &str, args: &[(&str, Arg)], tolerance: f64) {
    let expected = expected();
    let args = args.iter().map(|(name, arg)| ((*name).to_owned(), arg.clone())).collect();
    let settings = Settings { weight_decay: WEIGHT_DECAY, args, ..Settings::default() };
    let optimizer = optimizers::build("muon", &settings).unwrap();
    for (name, dims) in [("wide", [3, 4]), ("tall", [6, 2]), ("square", [5, 5])] {
        let values = |part: &str| &expected[&format!("{part}.{name}")];
        let spec = spec(name, &dims, Stage::Layer(0));
        let got = train(&*optimizer, &spec, true, values("start"), values("gradients"));
        check_close(&format!("{expect}.{name}"), &got, values(expect), tolerance);
    }
}

/// Compares what is evaluated after each step, where the optimizer trains something else.
fn check_evaluated(expect: &str, adam_beta1: f64, args: &[(&str, f64)]) {
    let args = args.iter().map(|(name, value)| ((*name).to_owned(), Arg::Number(*value))).collect();
    let settings = Settings { weight_decay: WEIGHT_DECAY, adam_beta1, args, ..Settings::default() };
    let optimizer = optimizers::build("schedule_free_adamw", &settings).unwrap();
    let (slot, factor) = optimizer.evaluated_offset().unwrap();
    let file = std::fs::read(folder_of("optimizers").join("expected.safetensors")).unwrap();
    let tensors = SafeTensors::deserialize(&file).unwrap();
    let values = |part: &str, name: &str| floats(&tensors, &format!("{part}.{name}")).unwrap();
    for (name, dims, weight_decay) in PARAMETERS {
        let spec = spec(name, dims, Stage::Head);
        let slots = optimizer.slots(&spec);
        let place = slots.iter().position(|it| it.name == slot).unwrap();
        let (start, gradients) = (values("start", name), values("gradients", name));
        let states = states(&*optimizer, &spec, weight_decay, &start, &gradients);
        let got: Vec<f32> = states
            .iter()
            .flat_map(|state| {
                let (parameter, slot) =
                    (state[0].to_f32().unwrap(), state[1 + place].to_f32().unwrap());
                let pairs = parameter.into_iter().zip(slot);
                pairs.map(|(value, slot)| value + factor as f32 * slot).collect::<Vec<_>>()
            })
            .collect();
        check_close(
            &format!("{expect}.{name}"),
            &got,
            &values(&format!("{expect}.evaluated"), name),
            2e-6,
        );
    }
}

/// The parameter after each step.
fn train(
    optimizer: &dyn Optimizer,
    spec: &ParameterSpec,
    weight_decay: bool,
    start: &[f32],
    gradients: &[f32],
) -> Vec<f32> {
    let states = states(optimizer, spec, weight_decay, start, gradients);
    states.iter().flat_map(|state| state[0].to_f32().unwrap()).collect()
}

/// The parameter and the slots after each step.
fn states(
    optimizer: &dyn Optimizer,
    spec: &ParameterSpec,
    weight_decay: bool,
    start: &[f32],
    gradients: &[f32],
) -> Vec<Vec<HostArray>> {
    let program = update(optimizer, spec, weight_decay);
    let array = |values: &[f32]| HostArray::from_f32(&spec.shape.dims, values).unwrap();
    let slots = optimizer.slots(spec);
    let mut state = vec![array(start)];
    state.extend(slots.into_iter().map(|slot| HostArray::zeros(slot.shape)));
    let mut history = Vec::new();
    for (step, rate) in RATES.into_iter().enumerate() {
        let scalars = optimizer.scalars(step as u64 + 1, rate);
        let gradient = gradients.chunks(start.len()).nth(step).unwrap();
        let mut arguments =
            vec![HostArray::from_f32(&[scalars.len()], &scalars).unwrap(), array(gradient)];
        arguments.extend(state);
        state = program.run(&arguments);
        history.push(state.clone());
    }
    history
}

/// One update. Arguments: scalars, gradient, parameter, slots. Results: the
/// last two anew.
fn update(optimizer: &dyn Optimizer, spec: &ParameterSpec, weight_decay: bool) -> Program {
    let trace = Trace::new();
    let parameter = |name: &str, shape: Shape| trace.parameter(name, shape).unwrap();
    let shape = spec.shape.clone();
    let count = optimizer.scalar_names().len();
    let scalars = parameter("scalars", Shape::new(DType::F32, [count]));
    let scalars = Scalars::split(optimizer, &scalars).unwrap();
    let (gradient, weight) =
        (parameter("gradient", shape.clone()), parameter("weight", shape.clone()));
    let slots: Vec<_> =
        optimizer.slots(spec).into_iter().map(|slot| parameter(slot.name, slot.shape)).collect();
    let at = Update {
        spec,
        parameter: &weight,
        gradient: &gradient,
        factor: None,
        slots: &slots,
        scalars: &scalars,
        weight_decay,
        parts: None,
    };
    let updated = optimizer.update(&at).unwrap();
    let outputs: Vec<_> = [&updated.parameter].into_iter().chain(&updated.slots).collect();
    Program::compile(&trace, &outputs)
}
