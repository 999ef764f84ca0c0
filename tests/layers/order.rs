//! The order of a package's modules.

use std::collections::{BTreeMap, BTreeSet};

use crate::circles::{Circle, circles};
use crate::package::Package;

/// Begins the line of a circle within a module.
const WITHIN: &str = "within ";

/// The modules of a package in layers, from the bottom up.
pub(crate) struct Order {
    package: String,
    layers: Vec<Layer>,
    /// The circles within modules, each of which has a reason.
    within: BTreeSet<Circle>,
}

/// Modules that do not import one another, unless they are a circle that has a reason.
struct Layer {
    modules: Vec<String>,
    reason: Option<String>,
}

impl Layer {
    /// Reads modules, with the reason behind `because` if they are a circle.
    fn parse(line: &str) -> Layer {
        let (modules, reason) = line
            .split_once(" because ")
            .map_or((line, None), |(modules, reason)| (modules, Some(reason)));
        let modules = modules.split_whitespace().map(str::to_owned).collect();
        Layer { modules, reason: reason.map(str::to_owned) }
    }
}

impl Order {
    /// Reads packages in brackets, each with a line for each of its layers, and for each circle within a module.
    pub(crate) fn parse_all(text: &str) -> BTreeMap<String, Order> {
        let mut orders = BTreeMap::new();
        let sections = text.split('[').skip(1).map(|section| section.split_once(']').unwrap());
        for (name, lines) in sections {
            let lines = lines.lines().filter(|line| !line.trim().is_empty());
            let (within, layers): (Vec<&str>, Vec<&str>) =
                lines.partition(|line| line.starts_with(WITHIN));
            let layers = layers.into_iter().map(Layer::parse).collect();
            let within = within.into_iter().map(circle_within).collect();
            let order = Order { package: name.to_owned(), layers, within };
            assert!(orders.insert(name.to_owned(), order).is_none(), "[{name}] is there twice");
        }
        orders
    }

    /// The imports that do not go down, and the modules that are not in the list or not in the package.
    pub(crate) fn violations(&self, package: &Package) -> Vec<String> {
        let (name, mut problems) = (&self.package, Vec::new());
        let listed: BTreeSet<&str> =
            self.layers.iter().flat_map(|it| &it.modules).map(String::as_str).collect();
        for module in listed.symmetric_difference(&package.top()) {
            let problem = match listed.contains(module) {
                true => "is not in the package",
                false => "is not in the list: add it above all that it imports",
            };
            problems.push(format!("tests/layers/order.txt, [{name}]: {module} {problem}"));
        }
        for import in package.imports() {
            let (Some(from), Some(to)) = (import.from.first(), import.to.first()) else { continue };
            let (above, below) = (self.layer(from), self.layer(to));
            let is_in_circle =
                above == below && above.is_some_and(|it| self.layers[it].reason.is_some());
            if from != to && below >= above && above.is_some() && !is_in_circle {
                problems.push(format!(
                    "{name}/src/{}: `{}` is of {to}, which is not below {from} in tests/layers/order.txt",
                    import.file, import.path
                ));
            }
        }
        for Circle { parent, modules } in circles(package).symmetric_difference(&self.within) {
            let modules = modules.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
            problems.push(format!(
                "{name}: {modules} of {parent} are a circle, or tests/layers/order.txt names one that is no more"
            ));
        }
        problems
    }

    /// The circles that are allowed.
    pub(crate) fn circles(&self) -> usize {
        self.within.len() + self.layers.iter().filter(|layer| layer.reason.is_some()).count()
    }

    fn layer(&self, module: &str) -> Option<usize> {
        self.layers.iter().position(|layer| layer.modules.iter().any(|it| it == module))
    }
}

/// Reads a parent, and its modules that are a circle.
fn circle_within(line: &str) -> Circle {
    let (circle, _) = line.split_once(" because ").expect("a circle has a reason");
    let (parent, modules) = circle[WITHIN.len()..].split_once(": ").unwrap();
    let modules = modules.split_whitespace().map(str::to_owned).collect();
    Circle { parent: parent.to_owned(), modules }
}
