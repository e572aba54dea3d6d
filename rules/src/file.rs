//! A file with the objects that were read from it.

use std::sync::Arc;

use crate::object::Object;
use crate::source::{self, Document, Source};

/// A file that was read as manifests.
#[derive(Clone, Debug)]
pub struct File {
    /// Its text.
    pub source: Arc<Source>,
    /// Its documents, broken ones included.
    pub documents: Vec<Document>,
    /// The objects of the documents that are checked.
    pub objects: Vec<Object>,
}

impl File {
    /// A file all of whose documents are manifests.
    #[must_use]
    pub fn read(source: Source) -> File {
        let source = Arc::new(source);
        let documents = source::read(&source);
        let objects =
            documents.iter().flat_map(|document| Object::from_document(&source, document, false)).collect();
        File { source, documents, objects }
    }
}
