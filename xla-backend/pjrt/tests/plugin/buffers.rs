//! Host to device and back.

use crate::support::cpu_client;
use half::{bf16, f16};
use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use traind_pjrt::{Buffer, Client, DType, Element, Error, Shape};

#[test]
fn bytes_of_every_dtype_come_back() {
    let client = cpu_client(1);
    let device = client.device(0).unwrap();
    for &dtype in DType::ALL {
        // 0 and 1 alone are valid for every type, i1 among them.
        let bytes: Vec<u8> = (0..6 * dtype.size_bytes()).map(|i| (i % 2) as u8).collect();
        let buffer = client.buffer_from_bytes(&bytes, dtype, &[2, 3], &device).unwrap();
        assert_eq!(buffer.dtype(), dtype);
        assert_eq!(buffer.dims(), [2, 3], "{dtype}");
        assert_eq!(buffer.to_bytes().unwrap(), bytes, "{dtype}");
        assert!(buffer.on_device_size_bytes().unwrap() >= bytes.len(), "{dtype}");
    }
}

fn check_slice<T: Element + PartialEq + Debug + Send>(client: &Client, values: [T; 6]) {
    let device = client.device(0).unwrap();
    let buffer = client.buffer_from_slice(&values, &[3, 2], &device).unwrap();
    assert_eq!(buffer.dtype(), T::DTYPE);
    assert_eq!(buffer.to_vec::<T>().unwrap(), values);
    let owned = client.buffer_from_vec(values.to_vec(), &[6], &device).unwrap();
    assert_eq!(owned.to_vec::<T>().unwrap(), values);
}

#[test]
fn slices_of_every_element_come_back() {
    let client = cpu_client(1);
    check_slice(&client, [i8::MIN, -1, 0, 1, 2, i8::MAX]);
    check_slice(&client, [i16::MIN, -1, 0, 1, 2, i16::MAX]);
    check_slice(&client, [i32::MIN, -1, 0, 1, 2, i32::MAX]);
    check_slice(&client, [i64::MIN, -1, 0, 1, 2, i64::MAX]);
    check_slice(&client, [0u8, 1, 2, 3, 4, u8::MAX]);
    check_slice(&client, [0u16, 1, 2, 3, 4, u16::MAX]);
    check_slice(&client, [0u32, 1, 2, 3, 4, u32::MAX]);
    check_slice(&client, [0u64, 1, 2, 3, 4, u64::MAX]);
    check_slice(&client, [0.0f32, 1.5, -2.5, f32::MIN, f32::MAX, f32::INFINITY]);
    check_slice(&client, [0.0f64, 1.5, -2.5, f64::MIN, f64::MAX, f64::INFINITY]);
    check_slice(&client, [0.0, 1.5, -2.5, 3.0, 4.0, 5.0].map(f16::from_f32));
    check_slice(&client, [0.0, 1.5, -2.5, 3.0, 4.0, 5.0].map(bf16::from_f32));
}

#[test]
fn scalars_and_empty_arrays_are_arrays() {
    let client = cpu_client(1);
    let device = client.device(0).unwrap();
    let scalar = client.buffer_from_slice(&[7i32], &[], &device).unwrap();
    assert_eq!((scalar.dims(), scalar.to_vec::<i32>().unwrap()), (&[][..], vec![7]));
    let empty = client.buffer_from_slice::<f32>(&[], &[2, 0, 3], &device).unwrap();
    assert_eq!((empty.dims(), empty.to_vec::<f32>().unwrap()), (&[2, 0, 3][..], vec![]));
}

#[test]
fn data_that_does_not_fill_the_shape_is_refused() {
    let client = cpu_client(1);
    let device = client.device(0).unwrap();
    let error = client.buffer_from_slice(&[1.0f32; 5], &[2, 3], &device).unwrap_err();
    let shape = Shape { dtype: DType::F32, dims: vec![2, 3] };
    assert_eq!(error, Error::HostSize { shape, expected: 24, found: 20 });
    assert_eq!(error.to_string(), "tensor<2x3xf32> needs 24 bytes, and the host data has 20");
    let error = client.buffer_from_slice(&[1.0f32], &[usize::MAX, 2], &device).unwrap_err();
    assert!(matches!(error, Error::ShapeTooLarge { .. }), "{error}");
}

#[test]
fn reading_another_type_is_refused() {
    let client = cpu_client(1);
    let buffer = client.buffer_from_slice(&[1.0f32], &[1], &client.device(0).unwrap()).unwrap();
    let error = buffer.to_vec::<i32>().unwrap_err();
    assert_eq!(error, Error::DTypeMismatch { expected: DType::S32, found: DType::F32 });
    let error = buffer.copy_to_slice(&mut [0.0f32; 2]).unwrap_err();
    assert!(matches!(error, Error::HostSize { expected: 4, found: 8, .. }), "{error}");
}

#[test]
fn a_copy_that_nobody_waits_for_is_safe() {
    let client = cpu_client(1);
    let values = vec![3.0f32; 1 << 20];
    let buffer =
        client.buffer_from_slice(&values, &[values.len()], &client.device(0).unwrap()).unwrap();
    for _ in 0..8 {
        drop(buffer.start_copy_to_host().unwrap());
    }
    let copy = buffer.start_copy_to_host().unwrap();
    drop(buffer);
    assert_eq!(copy.wait().unwrap(), 3.0f32.to_ne_bytes().repeat(values.len()));
}

/// Host data with a given alignment that records when it is dropped.
struct Watched {
    data: Vec<u8>,
    start: usize,
    dropped: Arc<AtomicBool>,
}

impl Watched {
    const SIZE: usize = 4096;

    /// The data start `offset` bytes after a 64-byte boundary.
    fn new(offset: usize) -> Self {
        let data = vec![9; Self::SIZE + 128];
        let start = data.as_ptr().align_offset(64) + offset;
        Self { data, start, dropped: Arc::default() }
    }
}

impl AsRef<[u8]> for Watched {
    fn as_ref(&self) -> &[u8] {
        &self.data[self.start..self.start + Self::SIZE]
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.dropped.store(true, Ordering::SeqCst);
    }
}

/// Returns the buffer, whether it has the data's address, and whether the data was deleted.
fn lend(client: &Client, offset: usize) -> (Buffer, bool, Arc<AtomicBool>) {
    let watched = Watched::new(offset);
    let (address, dropped) = (watched.as_ref().as_ptr() as usize, Arc::clone(&watched.dropped));
    let device = client.device(0).unwrap();
    let dims = [Watched::SIZE];
    let buffer = client.buffer_from_owned_bytes(watched, DType::U8, &dims, &device).unwrap();
    let in_place = buffer.device_address().unwrap() == address;
    (buffer, in_place, dropped)
}

fn becomes_true(flag: &AtomicBool) -> bool {
    let deadline = Instant::now() + Duration::from_secs(180);
    while !flag.load(Ordering::SeqCst) && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(1));
    }
    flag.load(Ordering::SeqCst)
}

#[test]
fn aligned_data_is_used_in_place_and_dropped_after_the_buffer() {
    let client = cpu_client(1);
    let (buffer, in_place, dropped) = lend(&client, 0);
    assert!(in_place);
    assert_eq!(buffer.to_bytes().unwrap(), [9; Watched::SIZE]);
    assert!(!dropped.load(Ordering::SeqCst));
    drop(buffer);
    assert!(becomes_true(&dropped));
}

#[test]
fn unaligned_data_is_copied_and_dropped_at_once() {
    let client = cpu_client(1);
    let (buffer, in_place, dropped) = lend(&client, 1);
    assert!(!in_place);
    assert!(becomes_true(&dropped));
    assert_eq!(buffer.to_bytes().unwrap(), [9; Watched::SIZE]);
}

#[test]
fn refused_data_is_dropped() {
    let client = cpu_client(1);
    let watched = Watched::new(0);
    let dropped = Arc::clone(&watched.dropped);
    let device = client.device(0).unwrap();
    client.buffer_from_owned_bytes(watched, DType::U8, &[1], &device).unwrap_err();
    assert!(dropped.load(Ordering::SeqCst));
}

#[test]
fn buffers_move_between_devices_and_memories() {
    let client = cpu_client(2);
    let (first, second) = (client.device(0).unwrap(), client.device(1).unwrap());
    let buffer = client.buffer_from_slice(&[1i32, 2, 3], &[3], &first).unwrap();
    let moved = buffer.copy_to_device(&second).unwrap();
    assert_eq!((moved.device(), moved.to_vec::<i32>().unwrap()), (second, vec![1, 2, 3]));
    let pinned = first.memory("pinned_host").unwrap();
    let copy = buffer.copy_to_memory(&pinned).unwrap();
    assert_eq!((copy.memory().unwrap(), copy.to_vec::<i32>().unwrap()), (pinned, vec![1, 2, 3]));
    let placed = client.buffer_from_slice(&[4i32], &[1], &copy.memory().unwrap()).unwrap();
    assert_eq!(placed.memory().unwrap().kind(), "pinned_host");
    assert_eq!(buffer.memory().unwrap().kind(), "device");
}

#[test]
fn a_deleted_buffer_says_so() {
    let client = cpu_client(1);
    let device = client.device(0).unwrap();
    let buffer = client.buffer_from_slice(&[1i32], &[1], &device).unwrap();
    assert!(!buffer.is_deleted().unwrap());
    buffer.delete().unwrap();
    assert!(buffer.is_deleted().unwrap());
    let errors = [
        buffer.to_vec::<i32>().unwrap_err(),
        buffer.to_bytes().unwrap_err(),
        buffer.copy_to_memory(&device.memory("pinned_host").unwrap()).unwrap_err(),
        buffer.device_address().unwrap_err(),
    ];
    for error in errors {
        assert!(matches!(error, Error::BufferDeleted { .. }), "{error:?}");
    }
    assert_eq!(buffer.dims(), [1]);
}

#[test]
fn devices_of_another_client_are_refused() {
    let (client, other) = (cpu_client(1), cpu_client(1));
    let device = other.device(0).unwrap();
    let error = client.buffer_from_slice(&[1i32], &[1], &device).unwrap_err();
    assert!(matches!(error, Error::ForeignHandle { .. }), "{error}");
}
