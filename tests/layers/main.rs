//! Modules of a package import only downwards. `order.txt` lists the modules of each package from the bottom up; this
//! test reads the sources and compares. Modules within a module have no order in the list, but no circle either, except
//! those that `order.txt` gives a reason for. Unit tests may import what they like.

#![allow(clippy::unwrap_used)] // helpers of tests fail by panicking

mod circles;
mod order;
mod package;
mod paths;
mod text;

use std::path::{Path, PathBuf};

use order::Order;
use package::Package;

const ORDER: &str = include_str!("order.txt");
/// The circles that `order.txt` names, each with its reason. They may only become fewer.
const CIRCLES_MAX: usize = 3;

#[test]
fn modules_import_only_those_below_them() {
    let orders = Order::parse_all(ORDER);
    let circles: usize = orders.values().map(Order::circles).sum();
    assert!(circles <= CIRCLES_MAX, "{circles} circles: make a module below those that need it");
    let mut problems = Vec::new();
    for folder in package_folders() {
        let name = folder.strip_prefix(workspace()).unwrap().display().to_string();
        let package = Package::read(&folder.join("src"));
        match orders.get(name.as_str()) {
            Some(order) => problems.extend(order.violations(&package)),
            None => problems.push(format!("tests/layers/order.txt has no modules of [{name}]")),
        }
    }
    assert!(problems.is_empty(), "\n{}", problems.join("\n"));
}

/// The twin of Neuron's plugin is for tests: nothing that is installed may have a part of it.
#[test]
fn no_other_package_depends_on_the_twin() {
    for folder in package_folders().iter().filter(|folder| !folder.ends_with("xla-backend/twin")) {
        let manifest = std::fs::read_to_string(folder.join("Cargo.toml")).unwrap();
        assert!(!manifest.contains("traind-twin"), "{}", folder.display());
    }
}

/// Loader, graph, models and trainer are libraries that know no jobs.
#[test]
fn libraries_depend_on_no_package_of_jobs() {
    let of_jobs = [
        "traind-proto",
        "traind-job-file",
        "traind-folders",
        "traind-rendezvous",
        "traind-convert",
    ];
    let is_library = |folder: &&PathBuf| {
        let path = folder.strip_prefix(workspace()).unwrap();
        (path.starts_with("loader") || path.starts_with("xla-backend")) && !path.ends_with("twin")
    };
    for folder in package_folders().iter().filter(is_library) {
        let manifest = std::fs::read_to_string(folder.join("Cargo.toml")).unwrap();
        let dependencies = manifest.split("[dev-dependencies]").next().unwrap();
        for name in of_jobs {
            let line = format!("\n{name}.");
            assert!(!dependencies.contains(&line), "{}: {name}", folder.display());
        }
    }
}

#[test]
fn an_import_that_goes_up_is_found() {
    let order = "[a]\nerror\ngraph\nops text\nabove below because they refer to each other\n";
    let order = &Order::parse_all(order)["a"];
    let package = |files: &[(&str, &str)]| Package::of_files(files);
    let sound = package(&[
        (
            "lib.rs",
            "mod error; mod graph; mod ops; mod text; mod above; mod below; pub use error::Error;",
        ),
        ("error.rs", "pub enum Error {}\n#[cfg(test)] mod tests { use crate::ops::Op; }"),
        (
            "graph.rs",
            "use crate::{Error, graph};\n// use crate::ops;\nconst S: &str = \"use crate::ops;\";",
        ),
        ("ops.rs", "use crate::graph::{self as of_graph, Node};\nfn f() { crate::error::f() }"),
        ("text.rs", ""),
        ("above.rs", "use crate::below::Below;"),
        ("below.rs", "use crate::{above::Above, ops::Op};"),
    ]);
    assert_eq!(order.violations(&sound), Vec::<String>::new());
    for (file, text) in [
        ("graph.rs", "use crate::{error, ops::{Op}};"),
        ("graph.rs", "fn f() -> crate::ops::Op { crate::error::new() }"),
        ("graph.rs", "use super::ops::Op;"),
        ("text.rs", "use crate::ops::Op;"),
        ("error.rs", "use crate::Node;"),
        ("text.rs", "use crate::above::Above;"),
    ] {
        let mut files = vec![
            (
                "lib.rs",
                "mod error; mod graph; mod ops; mod text; mod above; mod below; pub use graph::Node;",
            ),
            ("error.rs", ""),
            ("graph.rs", ""),
            ("ops.rs", ""),
            ("text.rs", ""),
            ("above.rs", ""),
            ("below.rs", ""),
        ];
        files.iter_mut().filter(|it| it.0 == file).for_each(|it| it.1 = text);
        let violations = order.violations(&package(&files));
        assert_eq!(violations.len(), 1, "{file}: {text}: {violations:?}");
        assert!(violations[0].contains(&format!("src/{file}")), "{violations:?}");
    }
}

#[test]
fn a_circle_within_a_module_is_found() {
    let files = |below: &'static str| {
        Package::of_files(&[
            ("lib.rs", "mod a;"),
            ("a.rs", "mod b; mod c; mod d; use c::C;"),
            ("a/b.rs", "use super::c::C;"),
            ("a/c.rs", "use crate::a::d::D; use super::Parent;"),
            ("a/d.rs", below),
        ])
    };
    let order = |text: &str| Order::parse_all(text).remove("p").unwrap();
    assert_eq!(order("[p]\na\n").violations(&files("")), [""; 0]);
    let circle = files("use super::b;");
    let violations = order("[p]\na\n").violations(&circle);
    assert!(violations[0].starts_with("p: b, c, d of a are a circle"), "{violations:?}");
    let named = order("[p]\na\nwithin a: b c d because they are one\n");
    assert_eq!(named.violations(&circle), [""; 0]);
    assert_eq!(named.circles(), 1);
    assert_eq!(named.violations(&files("")).len(), 1, "the circle is no more");
}

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// The folders of the workspace's packages that have sources.
fn package_folders() -> Vec<PathBuf> {
    let manifest = std::fs::read_to_string(workspace().join("Cargo.toml")).unwrap();
    let members = manifest.split_once("members = [").unwrap().1.split_once(']').unwrap().0;
    let names = members.split('"').skip(1).step_by(2);
    let folders: Vec<PathBuf> = names.map(|name| workspace().join(name)).collect();
    assert!(folders.iter().all(|folder| folder.join("src").is_dir()), "{folders:?}");
    folders
}
