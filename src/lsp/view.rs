//! The view of a file that a request uses.

use gpulint_rules::tree::Span;
use gpulint_rules::{CheckReport, Cluster, Engine, File, Node, Object};

pub(crate) struct View<'a> {
    /// The source, documents and objects of the file, as they were last parsed.
    pub(crate) file: &'a File,
    pub(crate) report: &'a CheckReport,
    pub(crate) engine: &'a Engine,
    /// The sets that the file is applied with, at least one.
    pub(crate) sets: Vec<SetView<'a>>,
}

/// The objects that are applied together with a file.
pub(crate) struct SetView<'a> {
    /// The name of the set; `None` if the whole input is one set.
    pub(crate) name: Option<&'a str>,
    pub(crate) cluster: &'a Cluster,
}

/// A key or a value of an object.
pub(crate) struct Spot<'a> {
    pub(crate) object: &'a Object,
    pub(crate) node: Node<'a>,
    pub(crate) on_key: bool,
    pub(crate) span: Span,
}

impl<'a> View<'a> {
    /// The innermost key or value that contains an offset or ends there.
    pub(crate) fn at(&self, offset: u32) -> Option<Spot<'a>> {
        let holds = |span: Span| span.start <= offset && offset <= span.end;
        let object = self.file.objects.iter().rev().find(|object| {
            let root = object.root();
            root.span().is_some_and(holds)
        })?;
        let mut node = object.root();
        let mut span = node.span()?;
        'deeper: loop {
            let children: Vec<Node<'a>> = match (node.is_mapping(), node.is_sequence()) {
                (true, _) => node.entries().into_iter().map(|(_, child)| child).collect(),
                (_, true) => node.items().collect(),
                _ => Vec::new(),
            };
            for child in children {
                if let Some(span) = child.key_span().filter(|span| holds(*span)) {
                    return Some(Spot { object, node: child, on_key: true, span });
                }
                if let Some(inner) = child.span().filter(|span| holds(*span)) {
                    (node, span) = (child, inner);
                    continue 'deeper;
                }
            }
            return Some(Spot { object, node, on_key: false, span });
        }
    }
}
