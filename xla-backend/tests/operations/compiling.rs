//! Each program is compiled once, however many ask for it at the same time.

use std::path::Path;
use std::sync::Barrier;

use traind_xla::mesh::Mesh;
use traind_xla::runtime::{Compiler, ExecutableCache, ExecutableSource, LocalCores};
use traind_xla::stablehlo::{DotPrecision, Output, Program, lower};
use traind_xla::{DType, Shape, Trace};

use crate::evaluator::CLIENT;

fn doubling() -> Program {
    let trace = Trace::new();
    let number = trace.parameter("number", Shape::scalar(DType::F32)).unwrap();
    let double = number.add(&number).unwrap();
    let outputs = [Output::new(double.node())];
    lower(&trace.graph(), "test", &outputs, 1, DotPrecision::Highest)
}

fn compiler(cache: &Path) -> Compiler {
    compiler_with(ExecutableCache::open(cache).unwrap())
}

fn compiler_with(cache: ExecutableCache) -> Compiler {
    let cores = LocalCores::of_host(CLIENT.clone(), Mesh::data_parallel(1).unwrap()).unwrap();
    Compiler::new(cores, Some(cache))
}

/// Compiles one program on a thread for each compiler at once, and counts those that found it
/// elsewhere.
fn found_in(source: ExecutableSource, compilers: &[&Compiler]) -> usize {
    let program = doubling();
    let barrier = Barrier::new(compilers.len());
    let compile = |compiler: &Compiler| {
        barrier.wait();
        compiler.compile(&program).unwrap().1.source
    };
    let compile = &compile;
    std::thread::scope(|scope| {
        let start = |&compiler| scope.spawn(move || compile(compiler));
        let threads: Vec<_> = compilers.iter().map(start).collect();
        let sources = threads.into_iter().map(|thread| thread.join().unwrap());
        sources.filter(|found| *found == source).count()
    })
}

#[test]
fn threads_share_what_one_compiles() {
    let cache = tempfile::tempdir().unwrap();
    let compiler = compiler(cache.path());
    assert_eq!(found_in(ExecutableSource::Memory, &[&compiler; 4]), 3);
}

#[test]
fn processes_share_what_one_compiles() {
    let cache = tempfile::tempdir().unwrap();
    // Each has a memory of its own, as that of another process.
    let compilers = [(); 4].map(|()| compiler(cache.path()));
    assert_eq!(found_in(ExecutableSource::Disk, &compilers.each_ref()), 3);
    let left: Vec<_> = std::fs::read_dir(cache.path()).unwrap().collect();
    assert_eq!(left.len(), 1, "the executable alone: {left:?}");
}

#[test]
fn hosts_compile_what_one_of_them_lacks() {
    let folder = tempfile::tempdir().unwrap();
    let cache = ExecutableCache::open(folder.path()).unwrap();
    let source = |cache| compiler_with(cache).compile(&doubling()).unwrap().1.source;
    assert_eq!(source(cache.clone()), ExecutableSource::Compiled);
    let keys = cache.newest_keys().unwrap();
    assert_eq!(keys.len(), 1);
    assert_eq!(source(cache.clone().restricted_to([].into())), ExecutableSource::Compiled);
    assert_eq!(source(cache.restricted_to(keys)), ExecutableSource::Disk);
}
