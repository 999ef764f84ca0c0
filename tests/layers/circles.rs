//! Circles of modules that have the same parent.

use std::collections::{BTreeMap, BTreeSet};

use crate::package::Package;

/// Modules of one parent, each of which imports every other one, if only through others of them.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Circle {
    /// The path of the parent from the root of the package.
    pub parent: String,
    pub modules: BTreeSet<String>,
}

/// The circles within the modules of a package, but not those of its root.
pub(crate) fn circles(package: &Package) -> BTreeSet<Circle> {
    let mut imports: BTreeMap<(String, String), BTreeSet<String>> = BTreeMap::new();
    for import in package.imports() {
        let (from, to) = (&import.from, &import.to);
        let depth = from.iter().zip(to).take_while(|(from, to)| from == to).count();
        if let (true, Some(importer), Some(imported)) = (depth > 0, from.get(depth), to.get(depth))
        {
            let parent = from[..depth].join("::");
            imports.entry((parent, importer.clone())).or_default().insert(imported.clone());
        }
    }
    let reached = |parent: &str, start: &str| {
        let (mut reached, mut pending) = (BTreeSet::new(), vec![start.to_owned()]);
        while let Some(module) = pending.pop() {
            let next = imports.get(&(parent.to_owned(), module)).into_iter().flatten();
            pending.extend(next.filter(|module| reached.insert((*module).clone())).cloned());
        }
        reached
    };
    let circle = |(parent, start): &(String, String)| {
        let around = reached(parent, start);
        let is_back = |module: &String| reached(parent, module).contains(start);
        let modules: BTreeSet<String> = around.iter().filter(|it| is_back(it)).cloned().collect();
        (modules.len() > 1).then(|| Circle { parent: parent.clone(), modules })
    };
    imports.keys().filter_map(circle).collect()
}
