//! Arguments that a program takes over.

use crate::support::{SUM_OF_TWO, compile, cpu_client, doubling};
use std::sync::Arc;
use traind_pjrt::{Buffer, Client, DType, Error, ExecuteOptions};

const ALIASED: &str = "{tf.aliasing_output = 0 : i32}";
const DONATED: &str = "{jax.buffer_donor = true}";

fn buffer(client: &Client, device: usize) -> Buffer {
    let device = client.device(device).unwrap();
    client.buffer_from_slice(&[1.0f32, 2.0, 3.0, 4.0], &[4], &device).unwrap()
}

#[test]
fn a_donated_buffer_is_deleted_and_its_memory_reused() {
    let client = cpu_client(1);
    for attributes in [ALIASED, DONATED] {
        let executable = compile(&client, &doubling(attributes), 1);
        let argument = buffer(&client, 0);
        let address = argument.device_address().unwrap();
        let outputs = executable.execute(&[[&argument]], &ExecuteOptions::default()).unwrap();
        let output = &outputs[0].buffers[0];
        assert_eq!(output.to_vec::<f32>().unwrap(), [2.0, 4.0, 6.0, 8.0]);
        assert!(argument.is_deleted().unwrap(), "{attributes}");
        assert_eq!(output.device_address().unwrap(), address, "{attributes}");
    }
}

#[test]
fn a_donated_buffer_used_again_is_a_typed_error() {
    let client = cpu_client(1);
    let executable = compile(&client, &doubling(ALIASED), 1);
    let argument = buffer(&client, 0);
    let options = ExecuteOptions::default();
    executable.execute(&[[&argument]], &options).unwrap();
    let error = executable.execute(&[[&argument]], &options).unwrap_err();
    assert_eq!(error, Error::ArgumentDeleted { device: 0, argument: 0 });
    let error = argument.to_vec::<f32>().unwrap_err();
    assert!(matches!(error, Error::BufferDeleted { .. }), "{error}");
}

/// Device 0 would wait for device 1 in the collective for ever.
#[test]
fn a_deleted_argument_of_one_device_starts_none() {
    let client = cpu_client(2);
    let executable = compile(&client, SUM_OF_TWO, 2);
    let arguments = [[buffer(&client, 0)], [buffer(&client, 1)]];
    arguments[1][0].delete().unwrap();
    let error = executable.execute(&arguments, &ExecuteOptions::default()).unwrap_err();
    assert_eq!(error, Error::ArgumentDeleted { device: 1, argument: 0 });
    assert_eq!(arguments[0][0].to_vec::<f32>().unwrap(), [1.0, 2.0, 3.0, 4.0]);
}

#[test]
fn a_non_donatable_input_stays() {
    let client = cpu_client(1);
    let executable = compile(&client, &doubling(ALIASED), 1);
    let argument = buffer(&client, 0);
    let options = ExecuteOptions { non_donatable_inputs: vec![0], ..ExecuteOptions::default() };
    for _ in 0..2 {
        let outputs = executable.execute(&[[&argument]], &options).unwrap();
        assert_eq!(outputs[0].buffers[0].to_vec::<f32>().unwrap(), [2.0, 4.0, 6.0, 8.0]);
    }
    assert_eq!(argument.to_vec::<f32>().unwrap(), [1.0, 2.0, 3.0, 4.0]);
}

/// The vector was lent to the plugin as immutable: donation must not write to it.
#[test]
fn donating_lent_memory_leaves_the_data_alone() {
    let client = cpu_client(1);
    let executable = compile(&client, &doubling(ALIASED), 1);
    let device = client.device(0).unwrap();
    let data = Arc::new(Aligned([1; 16]));
    let lent = Lent(Arc::clone(&data));
    let argument = client.buffer_from_owned_bytes(lent, DType::F32, &[4], &device).unwrap();
    let outputs = executable.execute(&[[&argument]], &ExecuteOptions::default()).unwrap();
    outputs[0].done.wait().unwrap();
    assert_eq!(data.0, [1; 16]);
}

#[repr(align(64))]
struct Aligned([u8; 16]);

struct Lent(Arc<Aligned>);

impl AsRef<[u8]> for Lent {
    fn as_ref(&self) -> &[u8] {
        &self.0.0
    }
}
