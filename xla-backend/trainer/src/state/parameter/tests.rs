use traind_models::optimizers::{Optimizers, Settings};
use traind_models::parameters::{Init, ParameterPath, Role};
use traind_pjrt::{Client, CreateOptions, Plugin};
use traind_xla::DType;
use traind_xla::kernels::GpuOptions;
use traind_xla::mesh::Mesh;
use traind_xla::runtime::LocalCores;

use super::*;
use crate::state::Fsdp;

fn device() -> LazyDevice {
    let plugin = Plugin::load(traind_pjrt::installed_plugin("cpu").unwrap()).unwrap();
    let options = CreateOptions::new().with("cpu_device_count", 1);
    let client = Client::new(plugin, &options).unwrap();
    let mesh = Mesh::data_parallel(1).unwrap();
    LazyDevice::new(LocalCores::of_host(client, mesh).unwrap(), None, GpuOptions::default())
}

/// A frozen parameter takes part in the loss, and no more: no slot, no sum, no update.
#[test]
fn a_frozen_parameter_stays_as_it_is() {
    let mut specs = Vec::new();
    let mut root = ParameterPath::root(&mut specs);
    root.declare("trained", Role::Projection, &[2.into()], Init::Zeros);
    root.at("base").frozen().declare("frozen", Role::Projection, &[2.into()], Init::Zeros);
    let optimizers = Optimizers::new("adamw_torch", &Settings::default(), &[]).unwrap();
    let declaration = Declaration {
        optimizers: &optimizers,
        fsdp: Fsdp::No,
        shards: Shards::ONE,
        accumulates: true,
        divides_positions: false,
    };
    let mut device = device();
    let start = [1.0, 2.0];
    let array = HostArray::from_f32(&[2], &start).unwrap();
    let states: Vec<ParameterState> = specs
        .iter()
        .enumerate()
        .map(|(index, spec)| {
            let place = Place { index, readers: vec![0], is_owned: true };
            ParameterState::declare(device.recorder_mut(), spec, place, &declaration).unwrap()
        })
        .collect();
    states.iter().for_each(|state| state.start(&mut device, &array, None).unwrap());
    let [trained, frozen] = &states[..] else { panic!("{states:?}") };
    assert!(trained.gradient_sum().is_some() && frozen.gradient_sum().is_none());
    assert_eq!((trained.slot_bytes(), frozen.slot_bytes()), (16, 0));

    let scalars = optimizers.scalars(1, 0.1, 1.0);
    let mesh = device.cores().mesh().clone();
    let step = device.compile(&[], |at| -> Result<()> {
        let values = states.iter().map(|it| it.read(at)).collect::<Result<Vec<_>>>()?;
        let loss = values[0].value.mul(&values[1].value)?.sum(&[0])?;
        let packed = at.trace().constant(DType::F32, &[scalars.len()], &scalars_of(&scalars))?;
        let scalars = optimizers.split(&packed)?;
        let one = at.trace().scalar(1.0, DType::F32)?;
        let with = ParameterUpdate {
            optimizers: &optimizers,
            scalars: &scalars,
            factor: &one,
            only_if: None,
            mesh: &mesh,
            shard: None,
            tensor_index: None,
        };
        let gradients = Gradient::of_loss(&loss, &values)?;
        assert_eq!(gradients.len(), 1);
        with.apply(at, &gradients)
    });
    device.install("step", step.unwrap());
    device.mark_step("step", &vec![Vec::new()]).unwrap().wait().unwrap();
    let value =
        |of: &ParameterState| of.value(&device).unwrap().into_array().unwrap().to_f32().unwrap();
    assert_eq!(value(frozen), start);
    let expect = start.map(|value| value - 0.1);
    for (got, expect) in value(trained).into_iter().zip(expect) {
        assert!((got - expect).abs() < 1e-6, "{got}, expected {expect}");
    }
}

fn scalars_of(scalars: &[f32]) -> Vec<f64> {
    scalars.iter().map(|scalar| f64::from(*scalar)).collect()
}
