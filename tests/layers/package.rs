//! The modules of a package and the imports between them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use crate::paths::{Named, named};
use crate::text::{without_literals, without_tests};

/// The names of modules from the root of the package, which has none.
pub(crate) type Module = Vec<String>;

/// An import of one module from another one.
#[derive(Debug)]
pub(crate) struct Import {
    pub from: Module,
    /// The file of `from`, below `src`.
    pub file: String,
    /// The module that owns what is imported, though others may pass it on.
    pub to: Module,
    /// The import's path as it is written.
    pub path: String,
}

/// The sources of a package.
pub(crate) struct Package {
    modules: BTreeMap<Module, Source>,
    imports: Vec<Import>,
}

struct Source {
    file: String,
    named: Vec<Named>,
}

impl Package {
    /// Reads the sources in `folder`.
    pub(crate) fn read(folder: &Path) -> Package {
        Package::of(&|file| fs::read_to_string(folder.join(file)).ok())
    }

    /// The package of sources by their names.
    pub(crate) fn of_files(files: &[(&str, &str)]) -> Package {
        Package::of(&|name| Some(files.iter().find(|it| it.0 == name)?.1.to_owned()))
    }

    fn of(read: &dyn Fn(&str) -> Option<String>) -> Package {
        let mut package = Package { modules: BTreeMap::new(), imports: Vec::new() };
        for root in ["lib.rs", "main.rs"] {
            if let Some(text) = read(root) {
                package.add(Vec::new(), root.to_owned(), &text, read);
            }
        }
        package.imports = package.resolved();
        package
    }

    pub(crate) fn imports(&self) -> &[Import] {
        &self.imports
    }

    /// The modules of the root.
    pub(crate) fn top(&self) -> BTreeSet<&str> {
        self.modules.keys().filter(|it| it.len() == 1).map(|it| it[0].as_str()).collect()
    }

    /// Adds a module with those that it declares in files of their own.
    fn add(
        &mut self,
        module: Module,
        file: String,
        text: &str,
        read: &dyn Fn(&str) -> Option<String>,
    ) {
        let text = without_tests(&without_literals(text));
        for name in declared(&text) {
            let mut inner = module.clone();
            inner.push(name);
            let place = inner.join("/");
            let files = [format!("{place}.rs"), format!("{place}/mod.rs")];
            let found = files.into_iter().find_map(|file| Some((read(&file)?, file)));
            if let Some((text, file)) = found {
                self.add(inner, file, &text, read);
            }
        }
        let source = self.modules.entry(module).or_insert(Source { file, named: Vec::new() });
        source.named.extend(named(&text));
    }

    fn resolved(&self) -> Vec<Import> {
        let mut imports = Vec::new();
        for (from, source) in &self.modules {
            for named in &source.named {
                let to = self.owner(from, &named.segments, 0).filter(|to| to != from);
                imports.extend(to.map(|to| Import {
                    from: from.clone(),
                    file: source.file.clone(),
                    to,
                    path: named.segments.join("::"),
                }));
            }
        }
        imports
    }

    /// The module that owns what `segments` name in `module`; `None` for another package's.
    fn owner(&self, module: &[String], segments: &[String], depth: usize) -> Option<Module> {
        let mut segments = segments;
        let mut owner: Module = match segments.first()?.as_str() {
            "crate" => Vec::new(),
            "self" | "super" => module.to_vec(),
            first => {
                let inner = [module, &[first.to_owned()]].concat();
                if !self.modules.contains_key(&inner) {
                    return None;
                }
                module.to_vec()
            }
        };
        while let [first, rest @ ..] = segments
            && ["crate", "self", "super"].contains(&first.as_str())
        {
            if first == "super" {
                owner.pop();
            }
            segments = rest;
        }
        while let [first, rest @ ..] = segments {
            let inner = [owner.as_slice(), std::slice::from_ref(first)].concat();
            if !self.modules.contains_key(&inner) {
                break;
            }
            (owner, segments) = (inner, rest);
        }
        let Some(item) = segments.first() else { return Some(owner) };
        Some(self.passed_on(&owner, item, depth).unwrap_or(owner))
    }

    /// The owner of an item that `module` passes on from elsewhere.
    fn passed_on(&self, module: &Module, item: &str, depth: usize) -> Option<Module> {
        const DEPTH_MAX: usize = 8;
        let declared = self.modules.get(module)?.named.iter().filter(|named| named.is_declared);
        let found = declared.filter(|named| named.name == item && depth < DEPTH_MAX);
        found.filter_map(|named| self.owner(module, &named.segments, depth + 1)).next()
    }
}

/// The modules that a source declares without a body.
fn declared(text: &str) -> Vec<String> {
    let mut names = Vec::new();
    for declaration in text.split("mod ").skip(1) {
        let name: String =
            declaration.chars().take_while(|it| it.is_alphanumeric() || *it == '_').collect();
        if declaration[name.len()..].starts_with(';') {
            names.push(name);
        }
    }
    names
}
