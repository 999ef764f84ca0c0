//! Links between documents: their files and headings exist, and the book lists every page.

use std::collections::HashMap;

use super::{Document, check, repository};

#[test]
fn every_link_leads_to_a_file_and_a_heading() {
    check(|document: &Document| {
        let prose = document.prose();
        links(&prose).filter_map(|link| problem(document, link)).collect::<Vec<_>>()
    });
}

#[test]
fn every_page_is_in_the_table_of_contents() {
    let contents = Document::read(repository().join("docs/README.md"));
    let listed: Vec<&str> = links(&contents.text).collect();
    for entry in repository().join("docs").read_dir().unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let is_listed = listed.iter().any(|link| link.trim_end_matches('/') == name);
        assert!(is_listed || name == "README.md", "docs/README.md does not list {name}");
    }
}

#[test]
fn anchors_are_those_of_a_forge() {
    let text = "# The `job` file\n## Users, roles\n### JOB_FILE_INVALID\n## Users, roles\n";
    let expected = ["the-job-file", "users-roles", "job_file_invalid", "users-roles-1"];
    assert_eq!(anchors(text), expected);
}

/// The targets of links to files of the repository.
fn links(prose: &str) -> impl Iterator<Item = &str> {
    let targets = prose.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    targets.filter(|target| !target.is_empty() && !target.contains("://"))
}

fn problem(document: &Document, link: &str) -> Option<String> {
    let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
    let path = match file {
        "" => document.path.clone(),
        file => document.path.parent().unwrap().join(file),
    };
    if !path.exists() {
        return Some(format!("the link {link} leads to no file"));
    }
    if anchor.is_empty() {
        return None;
    }
    let anchors = anchors(&Document::read(path).prose());
    (!anchors.iter().any(|known| known == anchor))
        .then(|| format!("the link {link} leads to no heading"))
}

/// The anchors that a forge gives to the headings of a page.
fn anchors(prose: &str) -> Vec<String> {
    let mut seen: HashMap<String, usize> = HashMap::new();
    let headings = prose.lines().filter(|line| line.starts_with('#'));
    headings
        .map(|line| {
            let slug = slug(line.trim_start_matches('#').trim());
            let count = seen.entry(slug.clone()).or_default();
            *count += 1;
            if *count == 1 { slug } else { format!("{slug}-{}", *count - 1) }
        })
        .collect()
}

fn slug(title: &str) -> String {
    let kept = title.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
    kept.collect::<String>().to_lowercase().replace(' ', "-")
}
